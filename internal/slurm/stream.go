package slurm

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Stream runs one of Slurm's commands that is beside scontrol, and has read take what it prints as
// it comes. The command is a process group of its own. Stream kills the group when ctx ends, and
// when read gives up. A failure of the command counts before one of read's, which may be its
// consequence.
func (s Scontrol) Stream(ctx context.Context, read func(io.Reader) error, program string, args ...string) error {
	alive, kill := context.WithCancel(ctx)
	defer kill()
	cmd := exec.CommandContext(alive, filepath.Join(filepath.Dir(s.Path), program), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	from, to := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := readAnyway(read, from)
		if err != nil {
			kill()
		}
		_, _ = io.Copy(io.Discard, from)
		done <- err
	}()
	asked := s.commandTo(alive, program, cmd, to, func() string { return "" })
	killed := alive.Err() != nil && ctx.Err() == nil
	to.Close()
	readErr := <-done
	if asked != nil && !killed {
		return asked
	}
	if readErr != nil {
		return fmt.Errorf("cannot read the answer of %s: %w", program, readErr)
	}
	return nil
}

// readAnyway makes an error of a reader's fault, which would end the process: nobody else can recover
// from what happens in this goroutine.
func readAnyway(read func(io.Reader) error, from io.Reader) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("slurmlet failed as it read: %v", fault)
		}
	}()
	return read(from)
}
