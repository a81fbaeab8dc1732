package process

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/notify"
)

// Adopt takes over a process that somebody else started: a daemon that has executed itself again and is our orphan, or is about to
// become it. One that has already ended is adopted with its status. A process that the table knows is returned as it is. A pid
// that is neither a descendant of ours nor a remembered exit is an error.
//
// Do not adopt a child of os/exec that the table did not start: its status goes to whoever waits for it there.
func (t *Table) Adopt(pid int) (*Process, error) {
	if t.pretence != nil {
		return t.pretend(pid), nil
	}
	t.starting.Lock()
	defer t.starting.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.living[pid]; p != nil {
		return p, nil
	}
	pidfd, err := openPidfd(pid)
	if err != nil {
		return t.adoptOver(pid, err)
	}
	if running(pidfd) {
		t.exits.forget(pid) // an earlier owner of the pid
	} else if status, ok := t.exits.take(pid); ok {
		defer pidfd.Close()
		return newOver(t, pid, status), nil
	}
	if pid == os.Getpid() || !notify.Descendant(pid, os.Getpid()) {
		defer pidfd.Close()
		return nil, fmt.Errorf("cannot adopt process %d: it is not a descendant of ours", pid)
	}
	return t.adopt(pid, pidfd), nil
}

// adoptOver takes over a process that was reaped before. Reaped comes before the pid is free, so the exit is remembered already.
func (t *Table) adoptOver(pid int, cause error) (*Process, error) {
	if status, ok := t.exits.take(pid); ok {
		return newOver(t, pid, status), nil
	}
	return nil, fmt.Errorf("cannot adopt process %d: %w", pid, cause)
}

func newOver(t *Table, pid int, status Status) *Process {
	p := &Process{pid: pid, started: time.Now(), done: make(chan struct{}), mu: &t.mu, status: status}
	close(p.done)
	return p
}

// adopt is called with the lock held.
func (t *Table) adopt(pid int, pidfd *os.File) *Process {
	conn, err := pidfd.SyscallConn()
	if err != nil {
		panic(err) // cannot happen: the file is open
	}
	p := &Process{
		pid: pid, started: time.Now(), done: make(chan struct{}), mu: &t.mu,
		send: pidfdSender(conn), close: pidfd.Close,
	}
	t.living[pid] = p
	go t.watch(p, conn)
	return p
}

// watch ends a process whose exit another parent collects, for it never comes through Reaped: nobody may go on believing that it
// is alive. Its status is lost to us. The zombie of an orphan of ours is left to Reaped.
func (t *Table) watch(p *Process, conn pidfdConn) {
	if conn.Read(hasEnded) != nil {
		return // closed: Reaped was quicker
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !p.over() && !isOurs(p.pid) {
		t.end(p, Status{Code: unknown})
	}
}

// isOurs says whether pid, which has ended, is a zombie among our children. An orphan of ours is one until Reaped has returned.
func isOurs(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil
		}
	}
}
