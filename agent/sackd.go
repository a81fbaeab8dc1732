package agent

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
	"github.com/slurmlet/slurmlet/internal/pod/sack"
)

// startSackd starts a sackd in the place of a slurmd that cannot be used, and waits until it
// answers. It reads the copy of the configuration that slurmd has fetched: with a
// configuration of its own sackd 24.11 would want slurmd's port.
func (a *Agent) startSackd(ctx context.Context) error {
	if a.daemon.keys == "" {
		return errors.New("the cluster does not use auth/slurm")
	}
	path, err := process.Find("sackd")
	if err != nil {
		return err
	}
	output, err := process.NewOutput("sackd", func(line process.Line) {
		a.Observe(Notice{Level: line.Level, Source: line.Source, Text: line.Text})
	})
	if err != nil {
		return err
	}
	socket := filepath.Join(a.Root, sack.Path)
	command := process.Command{
		Path: path, Args: []string{"-D", "-f", filepath.Join(confCache(a.Config), "slurm.conf")}, Dir: "/",
		Env: append(a.daemon.scontrolEnv(), a.keyEnv()...), Stdout: output.File(), Stderr: output.File(),
	}
	back, err := a.door.behind(&command)
	if err != nil {
		return err
	}
	if back != nil {
		socket = back.Path()
	} else if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot replace slurmd's socket: %w", err)
	}
	p, err := a.Table.Start(command)
	if back != nil {
		_ = back.Listener.Close() // sackd has it
	}
	if err != nil {
		return err
	}
	a.sackd.Store(p)
	for {
		if speaks(socket) {
			a.log(slog.LevelWarn, "sackd gives scontrol its credentials in the place of slurmd")
			return a.door.replace(back)
		}
		select {
		case <-p.Done():
			return fmt.Errorf("sackd: %s", p.Status().String())
		case <-ctx.Done():
			return errors.New("sackd does not answer")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// killSackd ends the sackd that was started.
func (a *Agent) killSackd() {
	if p := a.sackd.Load(); p != nil {
		_ = p.Signal(unix.SIGKILL) // it may be over
	}
}
