package process

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

func TestStop(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	const loop = "echo up; while :; do read x <>$0; done" // waits for ever on a fifo that nobody writes to
	for _, c := range []struct {
		name, script string
		ctx          context.Context
		want         Status
	}{
		{"it ends by the signal", loop, t.Context(), Status{TermSignal: unix.SIGTERM}},
		{"it ends in order", "trap 'exit 3' TERM; " + loop, t.Context(), Status{Code: 3}},
		{"it ignores the signal until the time is over", "trap '' TERM; " + loop, over, Status{TermSignal: unix.SIGKILL}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := collect(t)
			command := shell(c.script)
			command.Args = append(command.Args, newGate(t).path)
			command.Stdout = out.File()
			p := start(t, command)
			assert.Equal(t, "up", out.text(t))
			assert.Equal(t, c.want, p.Stop(c.ctx, unix.SIGTERM))
			assert.ErrorIs(t, p.Signal(unix.SIGTERM), ErrExited)
		})
	}
}

func TestStopWhatIsOver(t *testing.T) {
	p := start(t, shell("exit 4"))
	ended(t, p)
	assert.Equal(t, Status{Code: 4}, p.Stop(t.Context(), unix.SIGTERM))
}

func TestSignalReachesAWholeGroup(t *testing.T) {
	out := collect(t)
	command := shell("sleep 600 & echo up; wait")
	command.Stdout, command.Group = out.File(), true
	p := start(t, command)
	assert.Equal(t, "up", out.text(t))
	assert.Equal(t, Status{TermSignal: unix.SIGTERM}, p.Stop(t.Context(), unix.SIGTERM))
	assert.NoError(t, out.Close())
	next(t, out.Drained()) // the grandchild held the pipe
}
