package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// signal reaches the agent, as the container runtime sends it.
func signal(s unix.Signal) act {
	return func(c *container) { require.NoError(c.t, c.agent.Process.Signal(s)) }
}

// signalMain reaches the daemon.
func signalMain(s unix.Signal) act {
	return func(c *container) { require.NoError(c.t, unix.Kill(c.outside(c.main()), s)) }
}

// main is the main process, of which the status tells a little after it has begun.
func (c *container) main() (pid int) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		s, err := c.status()
		if err == nil && s.Main != nil {
			pid = s.Main.PID
		}
		return pid != 0
	}, limit, 5*time.Millisecond)
	return pid
}

// remember the main process, so that another one can be told from it.
func remember(c *container) { c.before = c.main() }

// mark the journal: what calls counts comes after it.
func mark(c *container) { c.marked = len(c.journal()) }

// pass lets time go by in which nothing must happen.
func pass(d time.Duration) act { return func(*container) { <-time.After(d) } }

// beginStep and endStep make and remove a step's socket, as slurmstepd does: while it is there, somebody listens.
func beginStep(step string) act {
	return func(c *container) {
		l, err := net.Listen("unix", c.path("spool/n1_"+step))
		require.NoError(c.t, err)
		c.t.Cleanup(func() { _ = l.Close() })
		c.steps[step] = l
	}
}

func endStep(step string) act {
	return func(c *container) { require.NoError(c.t, c.steps[step].Close()) }
}

// choose and drop files of the stand-ins.
func choose(name string) act { return func(c *container) { c.put(name, "") } }

func drop(name string) act {
	return func(c *container) { require.NoError(c.t, os.Remove(c.path(name))) }
}

// annotate makes this the only annotation of the pod, in the kubelet's way.
func annotate(name, value string) act {
	return func(c *container) {
		c.put("podinfo/new", fmt.Sprintf("%s=%q\n", name, value))
		require.NoError(c.t, os.Rename(c.path("podinfo/new"), c.path("podinfo/annotations")))
	}
}

func openController(c *container) { c.openController() }

// scontrol is what an administrator types.
func scontrol(args ...string) act {
	return func(c *container) {
		said, err := exec.CommandContext(c.t.Context(), c.path("bin/scontrol"), args...).CombinedOutput()
		require.NoError(c.t, err, string(said))
	}
}

// command is what somebody types in the container, what the program says of it and its exit status.
func command(code int, says string, args ...string) act {
	return func(c *container) {
		have := c.run(c.t, args...)
		require.Equal(c.t, code, have.code, have)
		require.Contains(c.t, have.stdout+have.stderr, says)
	}
}
