package process

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A table that starts nothing has one process at a time, as an agent has one daemon.
func TestPretence(t *testing.T) {
	started := make(chan Command, 1)
	table := NewPretence(func(c Command) { started <- c })
	first, err := table.Start(Command{Path: "/no/such/program", Args: []string{"one"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"one"}, (<-started).Args)
	assert.Equal(t, os.Getpid(), first.PID())
	require.NoError(t, first.Signal(unix.SIGHUP))
	select {
	case <-first.Done():
		t.Fatal("SIGHUP has ended it")
	default:
	}
	second, err := table.Adopt(1)
	require.NoError(t, err)
	assert.Equal(t, Status{}, ended(t, first), "another process has taken over")
	assert.Equal(t, 1, second.PID())
	require.NoError(t, second.Signal(unix.SIGTERM), "no signal reaches anybody")
	assert.Equal(t, Status{}, ended(t, second))
	assert.ErrorIs(t, second.Signal(unix.SIGTERM), ErrExited)
}
