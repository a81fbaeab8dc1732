package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/machine"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
	"golang.org/x/sys/unix"
)

// Execute does what the client asked for.
func (s *server) Execute(ctx context.Context, c remote.Command) int {
	return remote.Verbs{
		"exec":   {Arguments: "COMMAND…", Do: s.exec},
		"import": {Arguments: "FILE", Do: s.load},
		"start":  {Arguments: "PROGRAM", Do: s.start},
		"stop":   {Arguments: "PROGRAM", Do: s.stop},
	}.Execute(ctx, c)
}

// exec runs a command on the node itself.
func (s *server) exec(ctx context.Context, c remote.Command, args []string) (int, error) {
	return c.Attach(exec.CommandContext(ctx, args[0], args[1:]...))
}

// load gives containerd the images in an archive on the host.
func (s *server) load(_ context.Context, c remote.Command, args []string) (int, error) {
	at, err := os.MkdirTemp("/run", "import-")
	if err != nil {
		return 0, fmt.Errorf("cannot import %s: %v", args[0], err)
	}
	defer os.Remove(at)
	if err := (machine.Root{Guest: s.settings.Guest}).MountHost(filepath.Dir(args[0]), at); err != nil {
		return 0, err
	}
	cmd := ctr("images", "import", filepath.Join(at, filepath.Base(args[0])))
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	err = cmd.Run()
	if err = errors.Join(err, unix.Unmount(at, 0)); err != nil {
		return 0, fmt.Errorf("cannot import %s: %v", args[0], err)
	}
	return 0, nil
}

func (s *server) start(_ context.Context, _ remote.Command, args []string) (int, error) {
	d, err := s.programs.named(args[0])
	if err != nil {
		return 0, err
	}
	return 0, d.Start()
}

// stopGrace is how long a program gets.
const stopGrace = 20 * time.Second

func (s *server) stop(_ context.Context, _ remote.Command, args []string) (int, error) {
	d, err := s.programs.named(args[0])
	if err != nil {
		return 0, err
	}
	return 0, d.Stop(stopGrace)
}
