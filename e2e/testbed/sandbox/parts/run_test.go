package parts

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCommands(t *testing.T) {
	t.Run("output has every line of both streams", func(t *testing.T) {
		out, err := command{env: []string{"X=1"}}.output(t.Context(), "sh", "-c", "echo $X; echo two >&2; printf last")
		require.NoError(t, err)
		assert.Equal(t, "1\ntwo\nlast\n", out)
	})
	t.Run("an error holds the end of the output", func(t *testing.T) {
		err := command{}.run(t.Context(), "sh", "-c", "seq 100; echo why; exit 3")
		require.ErrorContains(t, err, "exit status 3")
		assert.Contains(t, err.Error(), "why")
		assert.Equal(t, tailLines, strings.Count(err.Error(), "\n"))
	})
	t.Run("no such program", func(t *testing.T) {
		assert.ErrorContains(t, command{}.run(t.Context(), "/does/not/exist"), "cannot start")
	})
	t.Run("cancelling ends the children too", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		started := time.Now()
		err := command{line: func(string) { cancel() }}.run(ctx, "sh", "-c", "sleep 60 & echo started; wait")
		require.ErrorIs(t, err, context.Canceled)
		assert.Less(t, time.Since(started), 30*time.Second)
	})
}
