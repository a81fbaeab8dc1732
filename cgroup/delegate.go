package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Leaf is the cgroup, one level below the container's, in which the agent and
// the daemons stand. Slurm takes the parent of PID 1's cgroup as its base, so
// it must be exactly one level deep; and no process may be left in the base,
// or its controllers cannot be enabled (cgroup-v2.rst, "No Internal Process
// Constraint").
const Leaf = "slurmlet"

// moveRounds bounds the race with processes that fork while they are moved.
const moveRounds = 100

// Delegate moves every process of the container's cgroup into Leaf, enables
// all its controllers for the cgroups below, and returns those controllers.
func (f FS) Delegate() ([]string, error) {
	own, err := f.own()
	if err != nil {
		return nil, err
	}
	if filepath.Base(own) == Leaf {
		own = filepath.Dir(own)
	}
	base := filepath.Join(f.root, mount, own)
	leaf := filepath.Join(base, Leaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("cannot make a cgroup for the agent: %w", err)
	}
	if err := moveAll(base, leaf); err != nil {
		return nil, err
	}
	return enable(base)
}

func moveAll(from, to string) error {
	for range moveRounds {
		procs, err := os.ReadFile(filepath.Join(from, "cgroup.procs"))
		if err != nil {
			return fmt.Errorf("cannot list the processes of the container's cgroup: %w", err)
		}
		pids := strings.Fields(string(procs))
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			// A process that has ended meanwhile (ESRCH) is as good as moved; what
			// really stays behind is seen in the next round.
			_ = os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(pid), 0)
		}
	}
	return fmt.Errorf("cannot empty the container's cgroup %s: processes stay in it after %d rounds", from, moveRounds)
}

// enable turns on, one by one, what the container's cgroup has, and reads back
// what is on: a controller that the kernel refuses must not cost the others.
func enable(base string) ([]string, error) {
	controllers, err := os.ReadFile(filepath.Join(base, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("cannot list the cgroup's controllers: %w", err)
	}
	control := filepath.Join(base, "cgroup.subtree_control")
	var faults []error
	for _, name := range strings.Fields(string(controllers)) {
		if err := os.WriteFile(control, []byte("+"+name), 0); err != nil {
			faults = append(faults, fmt.Errorf("cannot enable the %s controller: %w", name, err))
		}
	}
	on, err := os.ReadFile(control)
	if err != nil {
		return nil, fmt.Errorf("cannot read back the enabled controllers: %w", err)
	}
	enabled := strings.Fields(string(on))
	slices.Sort(enabled)
	return enabled, errors.Join(faults...)
}
