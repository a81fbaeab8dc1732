package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
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

// Way is how the container's cgroup became writable.
type Way string

// The ways.
const (
	// Writable: it was so already (containerd's cgroup_writable, CRI-O's
	// annotation io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw).
	Writable Way = "writable"
)

// Delegation is the subtree that was handed to Slurm.
type Delegation struct {
	Way Way `json:"way,omitempty"`
	// Base is the directory of the container's own cgroup, below FS's root.
	Base string `json:"base,omitempty"`
	// Steps is the directory below Base in which slurmd makes job_N.
	Steps string `json:"steps,omitempty"`
	// Controllers are those that are enabled for jobs, as read back.
	Controllers []string `json:"controllers,omitempty"`
}

// Delegate moves every process of the container's cgroup into Leaf, enables
// all its controllers for the cgroups below, and makes the cgroup in which
// slurmd called node puts its steps.
//
// slurmd would make that cgroup itself, through systemd, or on its own with
// cgroup.conf's IgnoreSystemd=yes. With that setting 24.11 moves whatever
// stands beside it into a cgroup "system" at each start, PID 1 too, and then
// finds another base at its second reconfigure, which fails. A cgroup that is
// there already needs neither systemd nor the setting.
func (f FS) Delegate(node string) (Delegation, error) {
	own, err := f.own()
	if err != nil {
		return Delegation{}, err
	}
	if path.Base(own) == Leaf {
		own = path.Dir(own)
	}
	d := Delegation{Way: Writable, Base: path.Join("/", mount, own)}
	base := filepath.Join(f.root, d.Base)
	leaf := filepath.Join(base, Leaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return Delegation{}, fmt.Errorf("cannot make a cgroup for the agent: %w", err)
	}
	if err := moveAll(base, leaf); err != nil {
		return Delegation{}, err
	}
	if _, err := enable(base); err != nil {
		return Delegation{}, err
	}
	slice := path.Join(d.Base, "system.slice")
	d.Steps = path.Join(slice, node+"_slurmstepd.scope")
	if err := os.MkdirAll(filepath.Join(f.root, d.Steps), 0o755); err != nil {
		return Delegation{}, fmt.Errorf("cannot make the cgroup for slurmd's steps: %w", err)
	}
	d.Controllers, err = enable(filepath.Join(f.root, slice))
	return d, err
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
	for name := range strings.FieldsSeq(string(controllers)) {
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
