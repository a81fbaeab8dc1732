package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/slurmlet/slurmlet/internal/sandbox/pod"
	"github.com/slurmlet/slurmlet/internal/sandbox/remote"
	"golang.org/x/sys/unix"
)

// exec runs a command in a pod.
func (s *server) exec(ctx context.Context, c remote.Command, args []string) (int, error) {
	var how pod.Exec
	if err := json.Unmarshal([]byte(args[1]), &how); err != nil {
		return 0, fmt.Errorf("cannot exec: %v", err)
	}
	if c.Terminal != nil {
		how.TTY, how.Env = true, append(how.Env, "TERM="+c.Terminal.Term)
	}
	cmd, err := s.kubelet.Command(ctx, args[0], how, args[2:])
	if err != nil {
		return 0, err
	}
	return attach(cmd, c)
}

// shell runs a command beside the pods, in the server's own root: for looking
// at the sandbox itself.
func (s *server) shell(ctx context.Context, c remote.Command, args []string) (int, error) {
	var how pod.Exec
	if err := json.Unmarshal([]byte(args[0]), &how); err != nil {
		return 0, fmt.Errorf("cannot exec: %v", err)
	}
	cmd := exec.CommandContext(ctx, args[1], args[2:]...)
	cmd.Env = append(os.Environ(), how.Env...)
	cmd.Dir = how.Dir
	return attach(cmd, c)
}

// drain is how long output is still read after the command has ended: something
// it left behind may hold it open.
const drain = 2 * time.Second

// attach joins the command with the client's streams until it ends.
func attach(cmd *exec.Cmd, c remote.Command) (int, error) {
	cmd.WaitDelay = drain
	begin := pipes
	if c.Terminal != nil {
		begin = terminal
	}
	end, err := begin(cmd, c)
	if err != nil {
		return 0, fmt.Errorf("cannot exec: %v", err)
	}
	defer end()
	stop := make(chan struct{})
	defer close(stop)
	go passSignals(cmd, c.Signals, stop)
	return exitCode(cmd.Wait())
}

func pipes(cmd *exec.Cmd, c remote.Command) (end func(), err error) {
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	// Not cmd.Stdin: Wait would wait for the client's input to end.
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_, _ = io.Copy(in, c.Stdin)
		_ = in.Close()
	}()
	return func() {}, nil
}

func terminal(cmd *exec.Cmd, c remote.Command) (end func(), err error) {
	t, err := pty.StartWithSize(cmd, size(c.Terminal.Size))
	if err != nil {
		return nil, err
	}
	output, stop := make(chan struct{}), make(chan struct{})
	go func() { _, _ = io.Copy(t, c.Stdin) }()
	go func() {
		_, _ = io.Copy(c.Stdout, t) // ends with EIO when the last process closes the terminal
		close(output)
	}()
	go passSizes(t, c.Terminal.Sizes, stop)
	return func() {
		select {
		case <-output:
		case <-time.After(drain):
		}
		close(stop)
		t.Close()
	}, nil
}

func passSizes(t *os.File, sizes <-chan remote.Size, stop <-chan struct{}) {
	for {
		select {
		case s := <-sizes:
			_ = pty.Setsize(t, size(s)) // a terminal that just closed has no size
		case <-stop:
			return
		}
	}
}

func size(s remote.Size) *pty.Winsize {
	return &pty.Winsize{Rows: uint16(s.Rows), Cols: uint16(s.Columns)}
}

func passSignals(cmd *exec.Cmd, signals <-chan string, stop <-chan struct{}) {
	for {
		select {
		case name := <-signals:
			if sig := unix.SignalNum("SIG" + name); sig != 0 {
				_ = cmd.Process.Signal(sig) // one that just ended needs none
			}
		case <-stop:
			return
		}
	}
}

func exitCode(err error) (int, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return 0, fmt.Errorf("cannot exec: %v", err)
	}
	return 0, nil
}
