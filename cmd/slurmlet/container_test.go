package main

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// given is a container before its start.
type given struct {
	role string
	// env is added to the surroundings' own; files are in the stage, where some choose how the stand-ins behave.
	env   []string
	files map[string]string
	// links lead from files of the stage to others.
	links map[string]string
	// good is the slurm.conf that an earlier slurmctld has left as the last good one.
	good string
	// steps run on the node, named <job>.<step>.
	steps []string
	// noSlurmctld: nobody takes slurmd's connections yet.
	noSlurmctld bool
	// slurmctldHost is in SLURMLET_SLURMCTLD, in the place of 127.0.0.1.
	slurmctldHost string
	// subreaper: the agent is an ordinary process and not PID 1.
	subreaper bool
	// unread: nobody reads the agent's output, until somebody does (readOutput).
	unread bool
}

// container is a running agent with everything around it.
type container struct {
	surroundings
	t         testing.TB
	agent     *exec.Cmd
	log       *logbook
	output    *os.File // nil where it goes to log
	stderr    bytes.Buffer
	slurmctld int // a socket that is bound
	over      chan struct{}
	before    int // the main process before a hand-over
	marked    int // the journal's length when it was marked
	steps     map[string]net.Listener
}

func start(t testing.TB, g given) *container {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a container needs root")
	}
	c := &container{surroundings: surroundings{dir: newStage(t)}, t: t, log: &logbook{}, over: make(chan struct{}), steps: map[string]net.Listener{}}
	for name, text := range g.files {
		c.put(name, text)
	}
	for name, target := range g.links {
		require.NoError(t, os.MkdirAll(filepath.Dir(c.path(name)), 0o755))
		require.NoError(t, os.Symlink(c.path(target), c.path(name)))
	}
	if g.good != "" {
		c.put("state/slurmlet/conf.1/slurm.conf", g.good)
		require.NoError(t, os.Symlink("conf.1", c.path("state/slurmlet/conf")))
	}
	for _, step := range g.steps {
		beginStep(step)(c)
	}
	c.bindSlurmctld()
	if !g.noSlurmctld {
		c.openSlurmctld()
	}
	c.env = append(c.roleEnv(g.role, cmp.Or(g.slurmctldHost, "127.0.0.1")), g.env...)
	c.agent = exec.CommandContext(t.Context(), filepath.Join(c.dir, "bin", "container"), slurmlet, g.role)
	c.agent.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	if g.subreaper {
		c.agent = exec.CommandContext(t.Context(), slurmlet, g.role)
	}
	c.agent.Env, c.agent.Stdout, c.agent.Stderr = c.environ(), c.log, &c.stderr
	begun := c.keepUnread(g.unread)
	require.NoError(t, c.agent.Start())
	begun()
	go func() {
		_ = c.agent.Wait()
		close(c.over)
	}()
	t.Cleanup(c.end)
	return c
}

// roleEnv makes a node of one CPU and 300 MiB, whatever the machine is. Its /tmp has 100 MiB. Without a limit of disk nobody asks
// slurmctld for a drain because of it.
func (c *container) roleEnv(role, slurmctld string) []string {
	if role == "slurmctld" {
		return []string{"SLURMLET_SLURM_USER=root"}
	}
	return []string{
		"SLURMLET_NODE_NAME=n1", "SLURMLET_SLURMCTLD=" + net.JoinHostPort(slurmctld, c.slurmctldPort()), "SLURMLET_SPOOL_DIR=" + c.path("spool"),
		"SLURMLET_PODINFO_DIR=" + c.path("podinfo"),
		"SLURMLET_CPU_LIMIT=1000", "SLURMLET_MEMORY_LIMIT=364Mi",
	}
}

// end leaves nothing behind: with PID 1 its whole namespace is gone.
func (c *container) end() {
	_ = c.agent.Process.Kill()
	<-c.over
	if c.agent.SysProcAttr == nil {
		c.endDaemons()
	}
	_ = unix.Close(c.slurmctld)
	require.NotContains(c.t, c.stderr.String(), "DATA RACE")
	require.NotContains(c.t, c.stderr.String(), "panic")
	if c.t.Failed() {
		c.t.Logf("log:\n%s\nstderr:\n%s\njournal:\n%s", c.log, &c.stderr, c.journal())
	}
}

// endDaemons looks for a subreaper's daemons by what they have written down.
func (c *container) endDaemons() {
	for line := range strings.Lines(c.journal()) {
		_, rest, _ := strings.Cut(line, "[")
		number, _, _ := strings.Cut(rest, "]")
		pid, err := strconv.Atoi(number)
		require.NoError(c.t, err)
		if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); exe == fakeSlurm {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

func (c *container) path(name string) string { return filepath.Join(c.dir, name) }

// put writes a file. A token is its owner's alone.
func (c *container) put(name, text string) {
	c.t.Helper()
	mode := os.FileMode(0o644)
	if filepath.Base(name) == "token" {
		mode = 0o400
	}
	require.NoError(c.t, os.MkdirAll(filepath.Dir(c.path(name)), 0o755))
	if name == "node.json" {
		defer c.locked()()
	}
	require.NoError(c.t, os.WriteFile(c.path(name), []byte(text), mode))
}

// locked keeps the stand-ins from the node record: one of them may be changing it.
func (c *container) locked() (unlock func()) {
	c.t.Helper()
	lock, err := os.OpenFile(c.path("lock"), os.O_CREATE|os.O_RDWR, 0)
	require.NoError(c.t, err)
	require.NoError(c.t, lock.Chmod(0o666))
	require.NoError(c.t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	return func() { require.NoError(c.t, lock.Close()) }
}

func (c *container) journal() string {
	text, err := os.ReadFile(c.path("journal"))
	require.NoError(c.t, err)
	return string(text)
}

// bindSlurmctld takes a port on which connections are refused until openSlurmctld.
func (c *container) bindSlurmctld() {
	var err error
	c.slurmctld, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(c.t, err)
	require.NoError(c.t, unix.Bind(c.slurmctld, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
}

// openSlurmctld: the kernel answers those who connect, and that is all that the agent asks.
func (c *container) openSlurmctld() { require.NoError(c.t, unix.Listen(c.slurmctld, 100)) }

func (c *container) slurmctldPort() string {
	name, err := unix.Getsockname(c.slurmctld)
	require.NoError(c.t, err)
	return strconv.Itoa(name.(*unix.SockaddrInet4).Port)
}

// outside translates a pid of the container's.
func (c *container) outside(pid int) int {
	outside, found := c.pids()[pid]
	require.True(c.t, found, "there is no process %d in the container", pid)
	return outside
}

// pids are those of the container's processes, zombies too, as they are inside and outside.
func (c *container) pids() map[int]int {
	ours, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", c.agent.Process.Pid))
	require.NoError(c.t, err)
	entries, err := os.ReadDir("/proc")
	require.NoError(c.t, err)
	pids := map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if theirs, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); theirs == ours {
			pids[inside(pid)] = pid
		}
	}
	return pids
}

// inside translates a pid into that of the process's own namespace (pid_namespaces(7), NSpid).
func inside(pid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if numbers, found := strings.CutPrefix(line, "NSpid:"); found {
			all := strings.Fields(numbers)
			pid, _ := strconv.Atoi(all[len(all)-1])
			return pid
		}
	}
	return 0
}
