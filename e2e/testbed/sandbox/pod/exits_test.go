package pod

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

func TestExits(t *testing.T) {
	var e exits
	var got []unix.WaitStatus
	tell := func(s unix.WaitStatus) { got = append(got, s) }

	e.wait(7, tell)
	e.reaped(8, 1) // nobody's
	e.reaped(7, 2)
	e.reaped(7, 3) // another process with the same number
	assert.Equal(t, []unix.WaitStatus{2}, got)

	e.expect()
	e.reaped(9, 4)
	e.wait(9, tell)
	e.done()
	assert.Equal(t, []unix.WaitStatus{2, 4}, got, "it ended before anybody knew its pid")

	e.expect()
	e.reaped(10, 5)
	e.done()
	e.expect()
	e.wait(10, tell)
	e.done()
	assert.Equal(t, []unix.WaitStatus{2, 4}, got, "an exit from before the creation is another process's")
}

func TestBackoff(t *testing.T) {
	assert.Equal(t, time.Second, backoff(0, time.Second))
	assert.Equal(t, 4*time.Second, backoff(2, time.Second))
	assert.Equal(t, 30*time.Second, backoff(99, time.Second))
	assert.Equal(t, time.Second, backoff(99, 2*time.Minute))
}

func TestDescribe(t *testing.T) {
	code, signal := exitCode(unix.WaitStatus(9))
	assert.Equal(t, 137, code)
	assert.Equal(t, "SIGKILL", signal)
	code, signal = exitCode(unix.WaitStatus(3 << 8))
	assert.Equal(t, 3, code)
	assert.Empty(t, signal)
}
