package process

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestStart(t *testing.T) {
	sh := func(script string, more func(*Command)) Command {
		c := shell(script)
		if more != nil {
			more(&c)
		}
		return c
	}
	group := strconv.Itoa(unix.Getpgrp())
	for _, c := range []struct {
		name    string
		command Command
		line    string
		status  Status
	}{
		{"code", sh("echo; exit 7", nil), "", Status{Code: 7}},
		{"signal", sh("echo; kill -USR1 $$", nil), "", Status{TermSignal: unix.SIGUSR1}},
		{"argv[0] is the path", sh("echo $0 $1", func(c *Command) { c.Args = append(c.Args, c.Path, "one two") }), "/bin/sh one two", Status{}},
		{"our environment", sh("echo $FROM_US", nil), "yes", Status{}},
		{"its own environment", sh("echo $FROM_US$A", func(c *Command) { c.Env = []string{"A=b"} }), "b", Status{}},
		{"directory", sh("pwd", func(c *Command) { c.Dir = "/usr" }), "/usr", Status{}},
		{"our group", sh("read a b c d e f </proc/self/stat; echo $e", nil), group, Status{}},
		{"its own group", sh("read a b c d e f </proc/$$/stat; test $e = $$ && echo own", func(c *Command) { c.Group = true }), "own", Status{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("FROM_US", "yes")
			out := collect(t)
			c.command.Stdout = out.File()
			p := start(t, c.command)
			assert.Equal(t, c.line, out.text(t))
			assert.Equal(t, c.status, ended(t, p))
			assert.ErrorIs(t, p.Signal(unix.SIGTERM), ErrExited)
		})
	}
}

func TestStartAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	out := collect(t)
	c := shell("id -u; id -g; id -G")
	c.Stdout, c.Credential = out.File(), &syscall.Credential{Uid: 64030, Gid: 64031}
	assert.Equal(t, Status{}, ended(t, start(t, c)))
	assert.Equal(t, []string{"64030", "64031", "64031"}, []string{out.text(t), out.text(t), out.text(t)})
}

// What a process has said is younger than its start, also where the machine is so busy that Start ends long after the process.
func TestStartedBeforeItSpeaks(t *testing.T) {
	said := make(chan time.Time, 1)
	out, err := NewOutput("test", func(Line) { said <- time.Now() })
	require.NoError(t, err)
	c := shell("echo fatal: no")
	c.Stdout = out.File()
	var p *Process
	table.mu.Lock()
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		p, err = table.Start(c)
	}()
	at := <-said
	table.mu.Unlock()
	next(t, begun)
	require.NoError(t, err)
	require.True(t, at.After(p.Started()), "it was said %v before the start", p.Started().Sub(at))
	require.Equal(t, Status{}, ended(t, p))
	require.NoError(t, out.Close())
	next(t, out.Drained())
}

func TestStartFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slurmd")
	_, err := table.Start(Command{Path: path})
	assert.EqualError(t, err, "cannot start "+path+": fork/exec "+path+": no such file or directory")
}

// A child belongs to the thread that forked it. One that is started from a goroutine which ends with its thread is not lost.
func TestStartFromADyingThread(t *testing.T) {
	hold := newGate(t)
	started := make(chan *Process)
	tid := make(chan int)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		p, err := table.Start(shell(hold.wait() + "; exit 7"))
		assert.NoError(t, err)
		started <- p
		tid <- unix.Gettid()
	}()
	p := next(t, started)
	thread := filepath.Join("/proc/self/task", strconv.Itoa(next(t, tid)))
	require.Eventually(t, func() bool { return !exists(thread) }, limit, tick)
	hold.open(t)
	assert.Equal(t, Status{Code: 7}, ended(t, p))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
