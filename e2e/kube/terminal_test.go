//go:build e2e

package kube

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal is a person's, with a program in it.
type terminal struct {
	cmd *exec.Cmd
	// ours is the end with the person, theirs that of the program.
	ours, theirs *os.File
	mutex        sync.Mutex
	shown        bytes.Buffer
}

// terminal opens one of a size, and runs a line of a shell in it, in which kubectl finds its plugin.
func (c *cluster) terminal(t *testing.T, rows, columns uint16, line string) *terminal {
	t.Helper()
	x := &terminal{cmd: exec.CommandContext(t.Context(), "sh", "-c", "exec "+line)}
	var err error
	x.ours, x.theirs, err = pty.Open()
	require.NoError(t, err)
	x.resize(t, rows, columns)
	x.cmd.Env = append(os.Environ(), c.Environment()...)
	x.cmd.Env = append(x.cmd.Env, "TERM=xterm", "PATH="+filepath.Clean(repository("bin"))+":"+c.Programs()+":"+os.Getenv("PATH"))
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = x.theirs, x.theirs, x.theirs
	x.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, x.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		text := make([]byte, 4096)
		for {
			n, err := x.ours.Read(text)
			x.mutex.Lock()
			x.shown.Write(text[:n])
			x.mutex.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill() // it has ended, mostly
		_ = x.cmd.Wait()
		_ = x.theirs.Close()
		_ = x.ours.Close()
		<-read
	})
	return x
}

func (x *terminal) resize(t *testing.T, rows, columns uint16) {
	t.Helper()
	require.NoError(t, pty.Setsize(x.ours, &pty.Winsize{Rows: rows, Cols: columns}))
}

func (x *terminal) types(t *testing.T, text string) {
	t.Helper()
	_, err := x.ours.WriteString(text)
	require.NoError(t, err)
}

// shows waits for a text, and forgets what was shown before it.
func (x *terminal) shows(t *testing.T, text string) {
	t.Helper()
	until(t, "the terminal shows "+text, func() (bool, string) {
		x.mutex.Lock()
		defer x.mutex.Unlock()
		_, after, has := bytes.Cut(x.shown.Bytes(), []byte(text))
		if !has {
			return false, x.shown.String()
		}
		rest := bytes.Clone(after)
		x.shown.Reset()
		x.shown.Write(rest)
		return true, ""
	})
}

// modes are how the terminal treats what is typed.
func (x *terminal) modes(t *testing.T) unix.Termios {
	t.Helper()
	modes, err := unix.IoctlGetTermios(int(x.theirs.Fd()), unix.TCGETS)
	require.NoError(t, err)
	return *modes
}

// ends waits for the program, and returns its status.
func (x *terminal) ends(t *testing.T) int {
	t.Helper()
	_ = x.cmd.Wait() // its status says the same
	return x.cmd.ProcessState.ExitCode()
}

// kubectlTerminal: a shell by kubectl slurm is one on the person's terminal: its size, Ctrl-C, and the status of its end.
func kubectlTerminal(t *testing.T, c *cluster) {
	c.kubectl(t, "exec", "slurm-login-0", "--", "useradd", "--create-home", "--shell", "/bin/bash", "visitor")
	for line, where := range map[string]string{"ssh slurm-cpu-1": "slurm-cpu-1:root", "login visitor": "slurm-login-0:visitor"} {
		x := c.terminal(t, 31, 97, c.pluginLine(line))
		before := x.modes(t)
		x.types(t, "echo $(hostname):$(id -un) $(stty size)\r")
		x.shows(t, where+" 31 97\r\n")
		x.resize(t, 40, 120)
		x.types(t, "until [ \"$(stty size)\" = '40 120' ]; do sleep 0.1; done; echo wide-$((1+1))\r")
		x.shows(t, "wide-2")
		// What says that it begins has the terminal already: an interrupt before that is the shell's own, which shows no ^C.
		x.types(t, "sh -c 'echo begin-$((1+1)); exec sleep 1000'\r")
		x.shows(t, "begin-2")
		x.types(t, "\x03")
		x.shows(t, "^C")
		x.types(t, "echo status-$?\r")
		x.shows(t, "status-130")
		assert.NotEqual(t, before, x.modes(t), "what is typed goes to the pod")
		x.types(t, "exit 7\r")
		assert.Equal(t, 7, x.ends(t), line)
		assert.Equal(t, before, x.modes(t), "the terminal is as it was")
	}
	c.kubectl(t, "exec", "slurm-login-0", "--", "userdel", "--remove", "visitor")

	out, status := c.shell(t, "echo 'hostname; exit 5' | "+c.pluginLine("ssh slurm-cpu-1"))
	assert.Equal(t, 5, status, out)
	assert.Equal(t, "slurm-cpu-1\n", strings.TrimLeft(out, "\n"), "without a terminal, too")
}
