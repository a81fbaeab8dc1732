package remote

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// drain is how long output is still read after the command has ended: something
// it left behind may hold it open.
const drain = 2 * time.Second

// Attach joins a process with the client's streams until it ends, and returns its
// exit code: 128 and the signal of one that was killed.
func (c Command) Attach(cmd *exec.Cmd) (int, error) {
	cmd.WaitDelay = drain
	begin := pipes
	if c.Terminal != nil {
		begin = terminal
	}
	end, err := begin(cmd, c)
	if err != nil {
		return 0, fmt.Errorf("cannot exec: %w", err)
	}
	defer end()
	stop := make(chan struct{})
	defer close(stop)
	go passSignals(cmd, c.Signals, stop)
	return processCode(cmd.Wait())
}

func pipes(cmd *exec.Cmd, c Command) (end func(), err error) {
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

func terminal(cmd *exec.Cmd, c Command) (end func(), err error) {
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

func passSizes(t *os.File, sizes <-chan Size, stop <-chan struct{}) {
	for {
		select {
		case s := <-sizes:
			_ = pty.Setsize(t, size(s)) // a terminal that just closed has no size
		case <-stop:
			return
		}
	}
}

func size(s Size) *pty.Winsize {
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

func processCode(err error) (int, error) {
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
