package backoff

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRestarts: the pause doubles with each end in a row, and begins anew after a steady life.
func TestRestarts(t *testing.T) {
	var r Restarts
	for _, pause := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000} {
		require.Equal(t, pause*time.Millisecond, r.Pause(Steady-1))
	}
	require.Equal(t, FirstPause, r.Pause(Steady))
	require.Equal(t, 2*FirstPause, r.Pause(0))
}

func TestGrow(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 1, 1: 2, 5: 32, 6: 50, 20: 50, 64: 50} {
		require.Equal(t, want, Grow(1, n, 50), n)
	}
}
