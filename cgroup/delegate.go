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

// Delegation is the subtree that was handed to Slurm.
type Delegation struct {
	Access AccessMode `json:"way,omitempty"`
	// Base is the directory of the container's own cgroup, below FS's root.
	Base string `json:"base,omitempty"`
	// Steps is the directory below Base in which slurmd makes a cgroup for each
	// job: job_N in 24.11, the job's SLUID (s5MXM7YB10NP00) in 26.05.
	Steps string `json:"steps,omitempty"`
	// Controllers are those that are enabled for jobs, as read back.
	Controllers []string `json:"controllers,omitempty"`
	// Missing are those of Slurm's controllers that are not.
	Missing []Missing `json:"missing,omitempty"`

	outside *outside
}

// Complete says whether every controller is there that Slurm limits and counts
// jobs by. Devices are not among them: they are limited by an eBPF program.
func (d Delegation) Complete() bool {
	return d.Steps != "" && !slices.ContainsFunc(d.Missing, func(m Missing) bool { return m.Controller != devicesController })
}

// HoldsDevices says whether slurmstepd may load the eBPF programs that hold jobs to their devices.
func (d Delegation) HoldsDevices() bool {
	return d.Steps != "" && !slices.ContainsFunc(d.Missing, func(m Missing) bool { return m.Controller == devicesController })
}

// Delegate hands Slurm the container's cgroup: it makes it writable, if there
// is an AccessMode for it, moves every process into Leaf, enables all controllers for the
// cgroups below and reads them back, and makes the cgroup in which slurmd
// called node puts its steps. ErrForeign says that there is nothing to hand over
// that is the container's own.
//
// slurmd would make that cgroup itself, through systemd, or on its own with
// cgroup.conf's IgnoreSystemd=yes. With that setting 24.11 moves whatever
// stands beside it into a cgroup "system" at each start, PID 1 too, and then
// finds another base at its second reconfigure, which fails. A cgroup that is
// there already needs neither systemd nor the setting.
func (f FS) Delegate(node string) (Delegation, error) {
	d, refused, err := f.delegateLeaf()
	if err != nil {
		return Delegation{}, err
	}
	slice := path.Join(d.Base, "system.slice")
	steps := path.Join(slice, node+"_slurmstepd.scope")
	if err := os.MkdirAll(filepath.Join(f.root, steps), 0o755); err != nil {
		return Delegation{}, fmt.Errorf("cannot make the cgroup for slurmd's steps: %w", err)
	}
	refused = append(refused, enable(filepath.Join(f.root, slice))...)
	if d.Controllers, err = enabled(filepath.Join(f.root, slice)); err != nil {
		return Delegation{}, err
	}
	d.Missing = append(missing(d.Controllers, refused), f.missingDevices()...)
	d.Steps = steps
	return d, nil
}

// delegateLeaf makes the container's cgroup writable and moves every process into Leaf. It returns the controllers that
// could not be enabled for the cgroups below.
func (f FS) delegateLeaf() (Delegation, []refusal, error) {
	s, err := f.membership()
	if err != nil {
		return Delegation{}, nil, err
	}
	d := Delegation{Base: path.Join("/", mount)}
	if d.Access, d.outside, err = f.open(s); err != nil {
		return Delegation{}, nil, err
	}
	base, leaf := filepath.Join(f.root, d.Base), filepath.Join(f.root, d.Base, Leaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return Delegation{}, nil, noLeaf(err)
	}
	refused, err := f.clear(base, leaf)
	return d, refused, err
}

// noLeaf says why a cgroup that is mounted writable cannot be written.
func noLeaf(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("cannot make a cgroup for the agent (SELinux refuses it unless the machine has container_manage_cgroup on, "+
			"setsebool -P container_manage_cgroup on; or the cgroup is not root's here): %w", err)
	}
	return fmt.Errorf("cannot make a cgroup for the agent: %w", err)
}

// Within is the view of the machine after a delegation: with OwnNamespace the
// limits above the container are out of sight, but they still bind.
func (f FS) Within(d Delegation) FS {
	f.outside = d.outside
	return f
}

// OwnLeaf is the cgroup right below d.Base in which the calling process stands: Leaf, or what
// Reclaim has made in its place.
func (f FS) OwnLeaf(d Delegation) (string, error) {
	own, err := f.path("self")
	if err != nil {
		return "", err
	}
	leaf, _, _ := strings.Cut(strings.TrimPrefix(visible(own), "/"), "/")
	if leaf == "" {
		return "", fmt.Errorf("%w: the agent is in the cgroup %s", ErrForeign, own)
	}
	return path.Join(d.Base, leaf), nil
}
