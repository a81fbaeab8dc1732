package series

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTexts: a text is made once for each View, and everybody gets the same bytes.
func TestTexts(t *testing.T) {
	texts, v := NewTexts(Options{}), small()
	assert.Nil(t, texts.Have(v, Native, true))
	made := make([]*Text, 8)
	var all sync.WaitGroup
	for i := range made {
		all.Go(func() { made[i] = texts.Make(v, Native, i%2 == 0) })
	}
	all.Wait()
	for i := range made {
		assert.Same(t, texts.Have(v, Native, i%2 == 0), made[i])
	}
	assert.Nil(t, texts.Have(v, Exporter, true))
	assert.NotNil(t, texts.Make(v, Exporter, true))
	assert.NotNil(t, texts.Have(v, Native, true), "a second page does not end the first")
	next := small()
	assert.Nil(t, texts.Have(next, Native, true), "the text of another View")
	assert.Equal(t, made[0].Body(), texts.Make(next, Native, true).Body())
	assert.Nil(t, texts.Have(v, Native, true), "the old View is not kept")
}

// TestTail: the standard library reads what follows a text that many clients have in common.
func TestTail(t *testing.T) {
	texts, v := NewTexts(Options{}), small()
	plain, packed := texts.Make(v, Native, false), texts.Make(v, Native, true)
	assert.Less(t, len(packed.Body()), len(plain.Body())/4)
	for _, more := range []string{"", "slurmlet_ready 1\n", strings.Repeat("x", 1<<16-1), strings.Repeat("y", 1<<16), strings.Repeat("z", 200_000)} {
		want := string(plain.Body()) + more
		assert.Equal(t, want, string(plain.Body())+string(plain.Tail([]byte(more))))
		reader, err := gzip.NewReader(bytes.NewReader(append(bytes.Clone(packed.Body()), packed.Tail([]byte(more))...)))
		require.NoError(t, err)
		reader.Multistream(false)
		have, err := io.ReadAll(reader)
		require.NoError(t, err)
		assert.Equal(t, want, string(have))
	}
}

func TestAcceptsGzip(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "deflate": false, "deflate, gzip;q=0.5": true, "gzip;q=0": false, "gzip; q=0.000, br": false, "br,gzip": true, "x-gzip": false, "identity": false,
	} {
		assert.Equal(t, want, AcceptsGzip(http.Header{"Accept-Encoding": {header}}), header)
	}
	assert.True(t, AcceptsGzip(http.Header{"Accept-Encoding": {"br", "gzip"}}))
}
