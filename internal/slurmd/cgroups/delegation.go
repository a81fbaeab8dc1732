// Package cgroups hands Slurm the container's cgroup, and looks after what runs in it: the steps of jobs, and processes
// that Slurm did not start.
package cgroups

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

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

// Delegation is what became of the attempt to hand Slurm a cgroup subtree.
type Delegation struct {
	Mode Mode `json:"mode"`
	cgroup.Delegation
	Error string `json:"error,omitempty"`
	// Advice says what would change it.
	Advice string `json:"advice,omitempty"`
}

// What to do when Slurm has no cgroup subtree.
const (
	OpenTree = "make /sys/fs/cgroup writable in the container (containerd's cgroup_writable=true in the handler of " +
		"the pod's runtime class, " +
		"CRI-O's annotation io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw, which the handler's " +
		"allowed_annotations must list, or CAP_SYS_ADMIN)"
	turnOn    = "and set SLURMLET_CGROUP=require (the chart: cgroup.runtimeClassName, or cgroup.access)"
	goWithout = "or have Slurm do without it: cgroup.conf CgroupPlugin=disabled and slurm.conf ProctrackType=proctrack/linuxproc, " +
		"TaskPlugin=task/none or task/affinity, JobAcctGatherType=jobacct_gather/linux; with other settings slurmd does not start here"
	leaveHost = "give the container a cgroup namespace of its own (a pod that is not privileged has one), or CAP_SYS_ADMIN to make one"
	insist    = "or set SLURMLET_CGROUP=off, and slurmd will make cgroups where it finds itself, beside the " +
		"container and outside its limits"
)

// delegate hands Slurm the container's cgroup. The error is a Fault: in this
// mode slurmd must not start.
func delegate(machine cgroup.FS, mode Mode, node string) (Delegation, error) {
	d := Delegation{Mode: mode}
	if mode == Off {
		d.Advice = OpenTree + ", " + turnOn
		return d, nil
	}
	var err error
	d.Delegation, err = machine.Delegate(node)
	foreign := errors.Is(err, cgroup.ErrForeign)
	switch {
	case foreign:
		d.Error, d.Advice = err.Error(), leaveHost+", "+insist
	case err != nil:
		d.Error, d.Advice = err.Error(), OpenTree+", "+goWithout
	}
	if foreign || mode == Require && !d.Complete() {
		return d, &exitcode.Fault{Code: exitcode.Cgroup, Err: fmt.Errorf("SLURMLET_CGROUP=%s: %v", mode, d)}
	}
	return d, nil
}

func (d Delegation) level() slog.Level {
	if d.Mode != Off && !d.Complete() {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

func (d Delegation) String() string {
	switch {
	case d.Mode == Off:
		return "no cgroup of the agent's holds a job to its memory, cores or devices (SLURMLET_CGROUP=off). To change it, " + d.Advice
	case d.Error != "":
		return "Slurm cannot limit jobs by cgroup, neither their memory nor their cores or devices: " + d.Error +
			". To change it, " + d.Advice
	}
	text := []string{fmt.Sprintf("Slurm has a cgroup subtree (%s) with the controllers %s", d.Access, strings.Join(d.Controllers, ", "))}
	for _, m := range d.Missing {
		text = append(text, "without "+m.String())
	}
	return strings.Join(text, "; ")
}
