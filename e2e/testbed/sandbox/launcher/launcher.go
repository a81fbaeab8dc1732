// Package launcher keeps a process with namespaces of its own, in which
// everything of a sandbox runs: when it ends, everything is gone.
package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Launcher is PID 1 of a pid namespace, as the host sees it. A nil one was never started.
type Launcher struct {
	PID int
	// start is the time it was started, in clock ticks after boot: with the pid
	// it names one process for ever.
	start uint64
	// Ended is closed when it ended, if it is this process's child.
	Ended chan struct{}
}

const noteFile = "launcher"

// Start starts cmd in fresh pid, mount, network, UTS and IPC namespaces. Its
// output goes to console, and dir keeps a note of it.
func Start(cmd *exec.Cmd, dir, console string) (*Launcher, error) {
	out, err := os.OpenFile(console, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot launch sandbox: %v", err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &unix.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot launch sandbox: %v", err)
	}
	l, err := found(cmd.Process.Pid) // one that has ended already is there until Wait
	go func() {
		_ = cmd.Wait() // how it ended is on the console
		close(l.Ended)
	}()
	if err != nil {
		return l, err
	}
	return l, l.write(dir)
}

// found is the launcher that is a process of ours.
func found(pid int) (*Launcher, error) {
	l := &Launcher{PID: pid, Ended: make(chan struct{})}
	p, err := procfs.NewProc(pid)
	if err != nil {
		return l, fmt.Errorf("cannot find a process: %v", err)
	}
	stat, err := p.Stat()
	l.start = stat.Starttime
	return l, err
}

func (l *Launcher) write(dir string) error {
	line := fmt.Sprintf("%d %d\n", l.PID, l.start)
	if err := os.WriteFile(filepath.Join(dir, noteFile), []byte(line), 0o600); err != nil {
		return fmt.Errorf("cannot note the launcher: %v", err)
	}
	return nil
}

// Read finds the launcher that dir has a note of; nil if none was ever started.
func Read(dir string) (*Launcher, error) {
	data, err := os.ReadFile(filepath.Join(dir, noteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the launcher: %v", err)
	}
	l := &Launcher{}
	if _, err := fmt.Sscan(string(data), &l.PID, &l.start); err != nil {
		return nil, fmt.Errorf("cannot read the launcher's note: %v", err)
	}
	return l, nil
}

// Alive tells whether the process still runs; a zombie does not.
func (l *Launcher) Alive() bool {
	if l == nil {
		return false
	}
	p, err := procfs.NewProc(l.PID)
	if err != nil {
		return false
	}
	start, err := startTime(p)
	return err == nil && start == l.start
}

// Kill ends the launcher, and with it all of its pid namespace.
func (l *Launcher) Kill() error {
	if l == nil {
		return nil
	}
	fd, err := unix.PidfdOpen(l.PID, 0)
	if err != nil || !l.Alive() { // Alive: the one that the descriptor now holds
		return nil
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("cannot kill the launcher: %v", err)
	}
	if err := ended(fd, 30*time.Second); err != nil {
		return fmt.Errorf("cannot wait for the launcher's end: %v", err)
	}
	if l.Ended != nil {
		<-l.Ended
	}
	return nil
}

// startTime is that of a process or a thread that runs, in clock ticks after boot.
func startTime(p procfs.Proc) (uint64, error) {
	stat, err := p.Stat()
	switch {
	case err != nil:
		return 0, fmt.Errorf("cannot look at a process: %v", err)
	case stat.State == "Z":
		return 0, fmt.Errorf("process %d has ended", p.PID)
	}
	return stat.Starttime, nil
}

// ended waits for the end of the process that a pidfd holds.
func ended(fd int, limit time.Duration) error {
	end := time.Now().Add(limit)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(0, time.Until(end)).Milliseconds()))
		switch {
		case err == unix.EINTR && time.Now().Before(end): // the Go runtime's own signals do that
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("it goes on after %v", limit)
		default:
			return nil
		}
	}
}
