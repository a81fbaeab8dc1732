package process

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestBusy(t *testing.T) {
	start := func(script string) *Process {
		p, err := NewTable().Start(Command{Path: "/bin/sh", Args: []string{"-c", script}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Signal(unix.SIGKILL) })
		return p
	}
	computes := start("while :; do :; done")
	assert.True(t, Busy(computes.PID()))
	require.NoError(t, computes.Signal(unix.SIGSTOP))
	assert.False(t, Busy(computes.PID()), "it is stopped")
	sleeps := start("exec sleep 1000").PID()
	require.Eventually(t, func() bool { return !Busy(sleeps) }, time.Minute, time.Millisecond, "it sleeps once it has begun to")
	assert.False(t, Busy(1<<30), "there is no such process")
}
