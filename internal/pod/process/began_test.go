package process

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestBegan: a process that is heard of late has begun early nevertheless.
func TestBegan(t *testing.T) {
	before := time.Now()
	p, err := NewTable().Start(Command{Path: "/bin/sleep", Args: []string{"0.1"}})
	require.NoError(t, err)
	after := time.Now()

	at := Began("/", p)
	require.True(t, at.Before(after), "%v, started before %v", at, after)
	require.True(t, at.After(before.Add(-clockLag-time.Second)), "%v, started after %v", at, before)

	<-p.Done()
	require.Equal(t, p.Started().Add(-clockLag), Began("/", p), "nothing is known of a process that is gone")
}

// TestBeganByTheClockOfNow: what is said of the main process has no monotonic reading,
// which a step of the clock would not move.
func TestBeganByTheClockOfNow(t *testing.T) {
	pid, at := BeganByNow("/", nil)
	require.Zero(t, pid)
	require.True(t, at.IsZero())

	p, err := NewTable().Start(Command{Path: "/bin/sleep", Args: []string{"1000"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Signal(unix.SIGKILL)) }()
	pid, at = BeganByNow("/", p)
	require.Equal(t, p.PID(), pid)
	require.WithinDuration(t, p.Started(), at, time.Second)
	require.Equal(t, at.Round(0), at)
}
