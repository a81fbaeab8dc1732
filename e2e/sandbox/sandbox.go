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
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/sandbox/launcher"
	"github.com/slurmlet/slurmlet/e2e/sandbox/pod"
	"github.com/slurmlet/slurmlet/e2e/sandbox/remote"
	"github.com/slurmlet/slurmlet/e2e/sandbox/server"
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

// Up makes an empty sandbox. What it made of one that fails it removes again.
func Up(ctx context.Context, options Options) (*Sandbox, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	if err := free(options.Name); err != nil {
		return nil, err
	}
	s := &Sandbox{options: options, dir: filepath.Join(Dir, options.Name)}
	if err := s.up(ctx); err != nil {
		return nil, errors.Join(err, s.Down())
	}
	return s, nil
}

// Open finds a sandbox that is up.
func Open(ctx context.Context, name string) (*Sandbox, error) {
	s := &Sandbox{options: Options{Name: name, Progress: silent}, dir: filepath.Join(Dir, name)}
	if err := s.find(); err != nil {
		return nil, err
	}
	if s.launcher == nil || !s.launcher.Alive() {
		return nil, fmt.Errorf("no sandbox %q is up; %s", name, others())
	}
	return s, s.connect(ctx, 10*time.Second)
}

// Down ends a sandbox and everything in it, also one that is only half there.
// Pods get no time to stop: Shutdown does that.
func Down(name string) error {
	s := &Sandbox{options: Options{Name: name}, dir: filepath.Join(Dir, name)}
	if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no sandbox %q is up; %s", name, others())
	}
	if err := s.find(); err != nil {
		return err
	}
	return s.Down()
}

// Down ends the sandbox and everything in it.
func (s *Sandbox) Down() error {
	s.Close()
	s.guard.Stop()
	if s.launcher != nil {
		if err := s.launcher.Kill(); err != nil {
			return err
		}
	}
	if err := pod.RemoveCgroup(s.cgroupDir()); err != nil {
		return err
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("cannot remove sandbox: %v", err)
	}
	_ = os.Remove(Dir) // stays while there are other sandboxes
	return nil
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
	return launcher.RunGuard(filepath.Join(Dir, name), func() error { return Down(name) })
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

// free makes sure that no sandbox of that name is up, and removes a dead one.
func free(name string) error {
	dir := filepath.Join(Dir, name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	l, err := launcher.Read(dir)
	if err != nil {
		return err
	}
	if l != nil && l.Alive() {
		return fmt.Errorf("sandbox %q is up already: use it, or end it with down", name)
	}
	return Down(name)
}

// Names lists the sandboxes there are.
func Names() []string {
	entries, err := os.ReadDir(Dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return out
}

func others() string {
	if names := Names(); len(names) > 0 {
		return "there are: " + strings.Join(names, " ")
	}
	return "make one with up"
}
