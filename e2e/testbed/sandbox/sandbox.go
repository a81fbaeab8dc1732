// Package sandbox is a Slurm cluster in local pods: real OCI containers with
// limits and networks of their own, on one machine, without Kubernetes. It
// runs natively where the host has pure cgroup v2, and in a User-Mode-Linux
// guest elsewhere; who uses it need not know which.
//
// A sandbox is a process (its launcher) with namespaces of its own, and a
// directory below Dir. It outlives the program that made it, until Down, unless
// Options.With says otherwise.
package sandbox

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/launcher"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/pod"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/server"
)

// Sandbox is one that is up.
type Sandbox struct {
	options  Options
	dir      string
	settings server.Settings
	launcher *launcher.Launcher
	guard    *launcher.Guard
	client   *remote.Client
}

// Dir holds a directory for every sandbox, and nothing else is written anywhere.
const Dir = "/run/slurmlet-sandbox"

var sandboxes = launcher.Kind{Dir: Dir, What: "sandbox", Up: "up", Down: "down"}

// Up makes an empty sandbox. What it made of one that fails it removes again.
func Up(ctx context.Context, options Options) (*Sandbox, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	if err := sandboxes.Free(options.Name, Down); err != nil {
		return nil, err
	}
	s := &Sandbox{options: options, dir: sandboxes.Path(options.Name)}
	if err := s.up(ctx); err != nil {
		return nil, errors.Join(err, s.Down())
	}
	return s, nil
}

// Open finds a sandbox that is up.
func Open(ctx context.Context, name string) (*Sandbox, error) {
	s := &Sandbox{options: Options{Name: name, Progress: silent}, dir: sandboxes.Path(name)}
	if err := s.find(); err != nil {
		return nil, err
	}
	if !s.launcher.Alive() {
		return nil, sandboxes.Absent(name)
	}
	return s, s.connect(ctx, 10*time.Second)
}

// Down ends a sandbox and everything in it, also one that is only half there.
// Pods get no time to stop: Shutdown does that.
func Down(name string) error {
	if !sandboxes.Has(name) {
		return sandboxes.Absent(name)
	}
	s := &Sandbox{options: Options{Name: name}, dir: sandboxes.Path(name)}
	if err := s.find(); err != nil {
		return err
	}
	return s.Down()
}

// Down ends the sandbox and everything in it.
func (s *Sandbox) Down() error {
	s.Close()
	s.guard.Stop()
	if err := s.launcher.Kill(); err != nil {
		return err
	}
	if err := pod.RemoveCgroup(s.cgroupDir()); err != nil {
		return err
	}
	return sandboxes.Remove(s.options.Name)
}

// Close ends this program's connection; the sandbox stays up.
func (s *Sandbox) Close() {
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
}

// The parts of `slurmlet-sandbox` that Up starts again.
const (
	VerbGuest  = "launch-guest"
	VerbNative = "launch-native"
	VerbGuard  = "guard"
)

// RunGuard removes a sandbox when the process that Options.With named has ended.
func RunGuard(name string) int {
	return launcher.RunGuard(sandboxes.Path(name), func() error { return Down(name) })
}

// Traces are taken while a sandbox is up, to be looked at after Down.
func (s *Sandbox) Traces() launcher.Traces {
	return s.launcher.Traces(s.dir, s.cgroupDir())
}

// Console is the file with what the sandbox's own kernel and server say.
func (s *Sandbox) Console() string { return filepath.Join(s.dir, "console.log") }

// Guest tells whether the pods run in a guest with a kernel of its own.
func (s *Sandbox) Guest() bool { return s.settings.Guest }

// boot is the directory that the server is given; in a guest it is the first root.
func (s *Sandbox) boot() string { return filepath.Join(s.dir, "boot") }

func (s *Sandbox) find() (err error) {
	if s.launcher, err = launcher.Read(s.dir); err != nil || s.launcher == nil {
		return err
	}
	s.settings, err = server.ReadSettings(s.boot())
	return err
}
