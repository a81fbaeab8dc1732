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

// Delegation is what became of the attempt to hand Slurm a cgroup subtree.
type Delegation struct {
	Mode cgroup.Mode `json:"mode"`
	cgroup.Delegation
	Error string `json:"error,omitempty"`
	// Advice says what would change it.
	Advice string `json:"advice,omitempty"`
}

// These say what to do when Slurm has no cgroup subtree.
const (
	turnOn    = "and set SLURMLET_CGROUP=require (the chart: cgroup.runtimeClassName, or cgroup.access)"
	goWithout = "or have Slurm do without it: cgroup.conf CgroupPlugin=disabled and slurm.conf ProctrackType=proctrack/linuxproc, " +
		"TaskPlugin=task/none or task/affinity, JobAcctGatherType=jobacct_gather/linux; with other settings slurmd does not start here"
	leaveHost = "give the container a cgroup namespace of its own (a pod that is not privileged has one), or CAP_SYS_ADMIN to make one"
	insist    = "or set SLURMLET_CGROUP=off, and slurmd will make cgroups where it finds itself, beside the " +
		"container and outside its limits"
)

// delegate hands Slurm the container's cgroup. The error is a Fault: in this
// mode slurmd must not start.
func delegate(machine cgroup.FS, mode cgroup.Mode, node string) (Delegation, error) {
	d := Delegation{Mode: mode}
	if mode == cgroup.Off {
		d.Advice = cgroup.OpenTree + ", " + turnOn
		return d, nil
	}
	var err error
	d.Delegation, err = machine.Delegate(node)
	foreign := errors.Is(err, cgroup.ErrForeign)
	switch {
	case foreign:
		d.Error, d.Advice = err.Error(), leaveHost+", "+insist
	case err != nil:
		d.Error, d.Advice = err.Error(), cgroup.OpenTree+", "+goWithout
	}
	if foreign || mode == cgroup.Require && !d.Complete() {
		return d, &exitcode.Fault{Code: exitcode.Cgroup, Err: fmt.Errorf("SLURMLET_CGROUP=%s: %v", mode, d)}
	}
	return d, nil
}

func (d Delegation) level() slog.Level {
	if d.Mode != cgroup.Off && !d.Complete() {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

func (d Delegation) String() string {
	switch {
	case d.Mode == cgroup.Off:
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
