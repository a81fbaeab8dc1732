package cgroup

import "errors"

// Mode is SLURMLET_CGROUP: how much depends on Slurm's limiting jobs by cgroup.
type Mode string

// The modes.
const (
	Require Mode = "require" // exit with exitcode.Cgroup where it cannot
	Prefer  Mode = "prefer"  // say so and go on, unless slurmd would touch the host's cgroups
	Off     Mode = "off"     // leave cgroups alone
)

// ParseMode reads it.
func ParseMode(text string) (Mode, error) {
	switch mode := Mode(text); mode {
	case Require, Prefer, Off:
		return mode, nil
	}
	return "", errors.New("want require, prefer or off")
}

// OpenTree says how a site lets a container have cgroups.
const OpenTree = "make /sys/fs/cgroup writable in the container (containerd's cgroup_writable=true in the handler of " +
	"the pod's runtime class, " +
	"CRI-O's annotation io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw, which the handler's " +
	"allowed_annotations must list, or CAP_SYS_ADMIN)"
