package sack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// sackdCommand is a sackd that reads the copy of the configuration that the daemon has fetched: with a configuration of
// its own sackd 24.11 would want slurmd's port.
func (k *Kiosk) sackdCommand() (process.Command, error) {
	path, err := process.Find("sackd")
	if err != nil {
		return process.Command{}, err
	}
	output, err := k.output()
	if err != nil {
		return process.Command{}, err
	}
	return process.Command{
		Path: path, Args: []string{"-D", "-f", filepath.Join(k.ConfDir, "slurm.conf")}, Dir: "/", Credential: k.Credential,
		Env: k.Environ(), Stdout: output.File(), Stderr: output.File(),
	}, nil
}

// answers waits until a sackd answers on its socket.
func answers(ctx context.Context, sackd *process.Process, socket string) error {
	for !speaks(socket) {
		select {
		case <-sackd.Done():
			return fmt.Errorf("sackd: %s", sackd.Status().String())
		case <-ctx.Done():
			return errors.New("sackd does not answer")
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// StartSackd starts a sackd in the place of a slurmd that cannot be used, and waits until it answers.
func (k *Kiosk) StartSackd(ctx context.Context) error {
	if !k.HasKeys {
		return errors.New("the cluster does not use auth/slurm")
	}
	command, err := k.sackdCommand()
	if err != nil {
		return err
	}
	if k.door == nil {
		if err := os.Remove(k.socketPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot replace slurmd's socket: %w", err)
		}
	}
	p, back, err := k.start(command)
	if err != nil {
		return err
	}
	k.sackd.Store(p)
	socket := k.socketPath()
	if back != nil {
		socket = back.ProcPath()
	}
	if err := answers(ctx, p, socket); err != nil {
		return err
	}
	k.Log(slog.LevelWarn, "sackd gives scontrol its credentials in the place of slurmd")
	if back == nil {
		return nil
	}
	return k.door.Open(back)
}

// Sackd is the one that StartSackd has started, nil for none.
func (k *Kiosk) Sackd() *process.Process { return k.sackd.Load() }

// Close ends the sackd that StartSackd has started.
func (k *Kiosk) Close() {
	if p := k.sackd.Load(); p != nil {
		_ = p.Signal(unix.SIGKILL) // it may be over
	}
}
