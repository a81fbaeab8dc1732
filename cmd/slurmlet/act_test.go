package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// signal reaches the agent, as the container runtime sends it.
func signal(s unix.Signal) act {
	return func(c *container) { require.NoError(c.t, c.agent.Process.Signal(s)) }
}

// halted does something while the agent is stopped, and cannot see the half of it.
func halted(do act) act {
	return func(c *container) {
		signal(unix.SIGSTOP)(c)
		require.NoError(c.t, unix.Waitid(unix.P_PID, c.agent.Process.Pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil))
		do(c)
		signal(unix.SIGCONT)(c)
	}
}

// signalMain reaches the daemon.
func signalMain(s unix.Signal) act {
	return func(c *container) { require.NoError(c.t, unix.Kill(c.outside(c.main()), s)) }
}

// signalYoungest reaches the daemon that was started last, whether the agent knows it or not.
func signalYoungest(s unix.Signal) act {
	return func(c *container) { require.NoError(c.t, unix.Kill(c.outside(c.youngest()), s)) }
}

// youngest is the daemon that was started last.
func (c *container) youngest() int {
	all := regexp.MustCompile(`\[(\d+)`+regexp.QuoteMeta(newStart)).FindAllStringSubmatch(c.journal(), -1)
	require.NotEmpty(c.t, all)
	pid, err := strconv.Atoi(all[len(all)-1][1])
	require.NoError(c.t, err)
	return pid
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

func openSlurmctld(c *container) { c.openSlurmctld() }

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
