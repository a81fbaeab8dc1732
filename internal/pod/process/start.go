package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is a process to be started.
type Command struct {
	Path string   // becomes argv[0] too; absolute, because Slurm's daemons execute argv[0] again
	Args []string // without argv[0]
	Env  []string // "KEY=value"; nil: ours
	Dir  string   // "": ours

	Credential *syscall.Credential // nil: ours
	// a process group of its own, which then gets every signal: for helper services, never for Slurm's daemons
	Group bool

	Stdin, Stdout, Stderr *os.File // nil: /dev/null
}

// Start starts c. The error says which command it was.
func (t *Table) Start(c Command) (*Process, error) {
	if t.pretence != nil {
		return t.pretendStart(c), nil
	}
	type result struct {
		process *Process
		err     error
	}
	started := make(chan result, 1)
	go func() {
		// One thread forks and waits. A child belongs to the thread that forked it and would become an orphan with the thread's
		// end; here the thread outlives the child, whoever calls Start.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := c.cmd()
		p, err := t.start(cmd)
		started <- result{p, err}
		if err == nil {
			t.wait(cmd, p)
		}
	}()
	r := <-started
	if r.err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", c.Path, r.err)
	}
	return r.process, nil
}

func (c Command) cmd() *exec.Cmd {
	cmd := &exec.Cmd{
		Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: c.Env, Dir: c.Dir,
		SysProcAttr: &syscall.SysProcAttr{Credential: c.Credential, Setpgid: c.Group},
	}
	// A nil *os.File in an io.Writer would not be a nil io.Writer.
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
	return cmd
}

// start keeps Adopt out until the table knows the child. It does not keep out anything else: an exec may take long.
func (t *Table) start(cmd *exec.Cmd) (*Process, error) {
	t.starting.RLock()
	defer t.starting.RUnlock()
	began := time.Now() // the child may have spoken, and ended, before this runs on
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &Process{
		pid: cmd.Process.Pid, started: began, done: make(chan struct{}), mu: &t.mu,
		send: sender(cmd), close: func() error { return nil },
	}
	t.living[p.pid] = p
	return p, nil
}

// sender signals through the pidfd that os.Process holds. A group has no such thing before Linux 6.9, but its number is ours as
// long as the leader has not been waited for, and that happens with the lock held.
func sender(cmd *exec.Cmd) func(unix.Signal) error {
	if cmd.SysProcAttr.Setpgid {
		return func(sig unix.Signal) error { return unix.Kill(-cmd.Process.Pid, sig) }
	}
	return func(sig unix.Signal) error {
		if err := cmd.Process.Signal(sig); err == nil || !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return ErrExited
	}
}

// wait looks first and collects under the lock, so that the pid is not free before it has left the table.
func (t *Table) wait(cmd *exec.Cmd, p *Process) {
	for unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(p, waited(cmd))
}

func waited(cmd *exec.Cmd) Status {
	err := cmd.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return Status{Code: unknown} // cannot happen: nobody else waits for this child
	}
	return statusOf(unix.WaitStatus(cmd.ProcessState.Sys().(syscall.WaitStatus)))
}
