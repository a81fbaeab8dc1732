package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// EndTasks ends what users run in the steps below dir (Delegation.Steps): with
// SIGKILL whole cgroups at once, with another signal process by process. Their
// slurmstepd live on and report to slurmctld. which is asked for each job's number,
// empty where it is not known.
func (f FS) EndTasks(dir string, signal unix.Signal, which func(job string) bool) error {
	var faults []error
	for _, name := range children(filepath.Join(f.root, dir)) {
		path := filepath.Join(f.root, dir, name)
		for _, entry := range children(path) {
			step := filepath.Join(path, entry)
			if !isJob(name) || !strings.HasPrefix(entry, stepPrefix) || !which(f.jobNumber(name, step)) {
				continue
			}
			if signal == unix.SIGKILL {
				faults = append(faults, f.KillAll(filepath.Join(dir, name, entry, "user")))
			} else {
				signalAll(filepath.Join(step, "user"), signal)
			}
		}
	}
	return errors.Join(faults...)
}

// KillAll kills every process in a cgroup and below it; one that is not there has none.
func (f FS) KillAll(dir string) error {
	path := filepath.Join(f.root, dir)
	if gone(path) {
		return nil
	}
	if err := write(filepath.Join(path, "cgroup.kill"), "1"); err != nil && !gone(path) {
		return fmt.Errorf("cannot kill the processes in %s: %w", dir, err)
	}
	return nil
}

// HoldSteps stops the slurmstepd of the steps below dir (SIGSTOP): what they run
// lives on, and whatever becomes of it nobody hears of it. KillSteps ends them. One whose
// tasks have ended goes on: it only has to report that.
func (f FS) HoldSteps(dir string) {
	for _, name := range children(filepath.Join(f.root, dir)) {
		path := filepath.Join(f.root, dir, name)
		for _, entry := range children(path) {
			if isJob(name) && strings.HasPrefix(entry, stepPrefix) && populated(filepath.Join(path, entry, "user")) {
				signalAll(filepath.Join(path, entry, "slurm"), unix.SIGSTOP)
			}
		}
	}
}

// KillSteps kills the steps below dir with their slurmstepd.
func (f FS) KillSteps(dir string) error {
	var faults []error
	for _, name := range children(filepath.Join(f.root, dir)) {
		if isJob(name) {
			faults = append(faults, f.KillAll(filepath.Join(dir, name)))
		}
	}
	return errors.Join(faults...)
}

// jobNumber is in the cgroup's name, or in the title of a slurmstepd that
// stands in the step.
func (f FS) jobNumber(name, step string) string {
	if number, found := strings.CutPrefix(name, jobPrefix); found {
		return number
	}
	for _, pid := range pids(filepath.Join(step, "slurm")) {
		if number, _, found := strings.Cut(f.stepd(pid), "."); found {
			return number
		}
	}
	return ""
}

// signalAll signals every process in dir and below it. One that has gone, or
// that comes later, is missed: SIGKILL is for that.
func signalAll(dir string, signal unix.Signal) {
	for _, name := range children(dir) {
		signalAll(filepath.Join(dir, name), signal)
	}
	for _, pid := range pids(dir) {
		if number, err := strconv.Atoi(pid); err == nil && number > 1 {
			_ = unix.Kill(number, signal)
		}
	}
}
