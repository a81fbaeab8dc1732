package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/guest"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/launcher"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/server"
)

// boots is how often a guest that does not answer is started, and bootLimit how
// long one is waited for. One is up in a second or two.
const (
	boots     = 3
	bootLimit = time.Minute
)

func (s *Sandbox) up(ctx context.Context) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	if err := s.prepare(); err != nil {
		return err
	}
	if err := s.follow(); err != nil {
		return err
	}
	if !s.settings.Guest {
		s.options.Progress("starting the sandbox natively")
		if err := s.makeCgroup(); err != nil {
			return err
		}
		return s.start(ctx, VerbNative)
	}
	return s.bootGuest(ctx)
}

// settle decides what the sandbox stands on.
func (s *Sandbox) settle(ctx context.Context) (err error) {
	s.settings = server.Settings{Name: s.options.Name, Slurm: s.options.Slurm, Agent: s.options.Agent, Guest: !pureV2() && !s.options.NoLimits, NoLimits: s.options.NoLimits, Cgroup: s.cgroup(), Socket: filepath.Join(s.dir, "socket")}
	if s.settings.Root, err = s.options.root(ctx, s.options.Slurm); err != nil {
		return err
	}
	if !s.settings.Guest {
		return s.options.machine(ctx)
	}
	s.settings.Cgroup, s.settings.CPUs, s.settings.Memory = "/", s.options.CPUs, s.options.Memory
	s.settings.Kernel, err = s.options.kernel(ctx)
	return err
}

// prepare writes the boot directory. In a guest it is the first root, so it has
// the init and the mount points too.
func (s *Sandbox) prepare() error {
	if err := os.MkdirAll(filepath.Join(s.boot(), "scratch"), 0o700); err != nil {
		return fmt.Errorf("cannot prepare sandbox: %v", err)
	}
	if _, err := remote.MakeKeys(s.boot()); err != nil {
		return err
	}
	if err := s.settings.Write(s.boot()); err != nil {
		return err
	}
	if !s.settings.Guest {
		return nil
	}
	return guest.Prepare(s.boot(), s.options.Binary, server.Init)
}

// follow has a guard remove the sandbox when another process has ended.
func (s *Sandbox) follow() (err error) {
	if s.options.With != 0 {
		s.guard, err = launcher.StartGuard(exec.Command(s.options.Binary, VerbGuard, s.options.Name), s.dir, s.options.With)
	}
	return err
}

// bootGuest boots until one answers: a guest with several CPUs can hang.
func (s *Sandbox) bootGuest(ctx context.Context) error {
	var err error
	for try := range boots {
		if try > 0 {
			s.options.Progress("%v; booting again (%d of %d)", err, try+1, boots)
		} else {
			s.options.Progress("booting a User-Mode-Linux guest (%d CPUs, %d MiB): this host has no pure cgroup v2", s.settings.CPUs, s.settings.Memory)
		}
		if err = s.start(ctx, VerbGuest); err == nil || ctx.Err() != nil {
			return err
		}
		if end := s.launcher.Kill(); end != nil {
			return errors.Join(err, end)
		}
	}
	return err
}

// start launches the server and waits until it answers.
func (s *Sandbox) start(ctx context.Context, verb string) error {
	var err error
	if s.launcher, err = launcher.Start(exec.Command(s.options.Binary, verb, s.boot()), s.dir, s.Console()); err != nil {
		return err
	}
	limit := time.After(bootLimit)
	for {
		err := s.connect(ctx, 5*time.Second)
		if err == nil {
			return nil
		}
		select {
		case <-s.launcher.Ended:
			return fmt.Errorf("the sandbox ended while it started:\n%s", s.consoleTail())
		case <-limit:
			return fmt.Errorf("no answer from the sandbox in %v: %v\n%s", bootLimit, err, s.consoleTail())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// consoleTail is the last of what the console has, for an error.
func (s *Sandbox) consoleTail() string {
	data, err := os.ReadFile(s.Console())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
