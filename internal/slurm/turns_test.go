package slurm

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTurns: one question is in flight, until the way down.
func TestTurns(t *testing.T) {
	turns := NewTurns()
	done, err := turns.Take(t.Context())
	require.NoError(t, err)
	late, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = turns.Take(late)
	require.ErrorIs(t, err, context.Canceled)
	done()
	done, err = turns.Take(t.Context())
	require.NoError(t, err)
	waited := make(chan error)
	go func() {
		_, err := turns.Take(t.Context())
		waited <- err
	}()
	turns.Open()
	require.NoError(t, <-waited)
	for range 3 {
		_, err = turns.Take(t.Context())
		require.NoError(t, err)
	}
	done()
	for range 3 {
		_, err = (*Turns)(nil).Take(t.Context())
		require.NoError(t, err)
	}
}

// TestTurnsOfAProgram: where agents share a machine, each also waits for the program's turn, and gives its own back
// when it gets none.
func TestTurnsOfAProgram(t *testing.T) {
	shared := make(chan struct{}, 1)
	turns := NewTurns()
	both := turns.With(func(ctx context.Context) (func(), error) {
		select {
		case shared <- struct{}{}:
			return func() { <-shared }, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	late, cancel := context.WithCancel(t.Context())
	cancel()
	shared <- struct{}{} // another agent's command runs
	_, err := both(late)
	require.ErrorIs(t, err, context.Canceled)
	<-shared
	for range 2 {
		done, err := both(t.Context())
		require.NoError(t, err)
		_, err = turns.Take(late)
		require.ErrorIs(t, err, context.Canceled, "its own turn is taken")
		done()
	}
}
