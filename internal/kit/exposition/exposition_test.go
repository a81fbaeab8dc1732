package exposition

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWriter(t *testing.T) {
	var b strings.Builder
	w := NewWriter(&b)
	w.Head("a_total", "Things", KindOf("a_total"))
	w.WriteSample("a_total", "", 1<<52)
	w.WriteSample("a_total", Labels("node,job", "n1", "a\"b\\c\nd\xff"), 0.25)
	require.NoError(t, w.Flush())
	assert.Equal(t, "# HELP a_total Things\n# TYPE a_total counter\na_total 4503599627370496\na_total{node=\"n1\",job=\"a\\\"b\\\\c\\nd�\"} 0.25\n", b.String())
	assert.Equal(t, Gauge, KindOf("total"))
	assert.Equal(t, strings.Repeat("é", 127), Name(strings.Repeat("é", 200)))
	assert.InDelta(t, 1.25, Seconds(time.Unix(1, 250_400_000)), 0)
}

type broken struct{ n int }

func (b *broken) Write([]byte) (int, error) {
	b.n++
	return 0, errors.New("the disk is full")
}

// TestWriterKeepsItsFirstError and writes nothing more.
func TestWriterKeepsItsFirstError(t *testing.T) {
	to := &broken{}
	w := NewWriter(to)
	for range 10_000 {
		w.WriteSample("a", "", 1)
	}
	require.EqualError(t, w.Flush(), "the disk is full")
	assert.Equal(t, 1, to.n)
}
