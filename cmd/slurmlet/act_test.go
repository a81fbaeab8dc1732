package main

import (
	"os"
	"os/exec"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// signal reaches the agent, as the container runtime sends it.
func signal(s unix.Signal) act {
	return func(c *container) { require.NoError(c.t, c.agent.Process.Signal(s)) }
}

// signalMain reaches the daemon.
func signalMain(s unix.Signal) act {
	return func(c *container) {
		s0, err := c.status()
		require.NoError(c.t, err)
		require.NotNil(c.t, s0.Main)
		require.NoError(c.t, unix.Kill(c.outside(s0.Main.PID), s))
	}
}

// remember the main process, so that another one can be told from it.
func remember(c *container) {
	s, err := c.status()
	require.NoError(c.t, err)
	require.NotNil(c.t, s.Main)
	c.before = s.Main.PID
}

// choose and drop files of the stand-ins.
func choose(name string) act { return func(c *container) { c.put(name, "") } }

func drop(name string) act {
	return func(c *container) { require.NoError(c.t, os.Remove(c.path(name))) }
}

func openController(c *container) { c.openController() }

// scontrol is what an administrator types.
func scontrol(args ...string) act {
	return func(c *container) {
		said, err := exec.CommandContext(c.t.Context(), c.path("bin/scontrol"), args...).CombinedOutput()
		require.NoError(c.t, err, string(said))
	}
}
