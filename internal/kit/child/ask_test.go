package child

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAsk(t *testing.T) {
	const limit = time.Minute
	out, err := Ask(t.Context(), limit, "/bin/sh", "-c", "echo an answer; echo more >&2")
	require.NoError(t, err)
	assert.Equal(t, "an answer\n", out)

	_, err = Ask(t.Context(), limit, "/bin/sh", "-c", "echo first >&2; echo the reason >&2; exit 1")
	require.EqualError(t, err, "the reason")

	_, err = Ask(t.Context(), limit, "/bin/sh", "-c", "exit 3")
	require.EqualError(t, err, "cannot run /bin/sh: exit status 3")

	_, err = Ask(t.Context(), limit, "/no/such/program")
	require.ErrorContains(t, err, "cannot run /no/such/program")

	out, err = Ask(t.Context(), limit, "/bin/sh", "-c", "head -c 100000 /dev/zero | tr '\\0' a")
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("a", mostSaid), out)
}

// TestAskNobody: a command that says nothing is ended, also where a child of its holds its output.
func TestAskNobody(t *testing.T) {
	began := time.Now()
	_, err := Ask(t.Context(), 50*time.Millisecond, "/bin/sh", "-c", "sleep 1000 & exec sleep 1000")
	require.ErrorIs(t, err, ErrSilent)
	assert.Less(t, time.Since(began), 30*time.Second)
}
