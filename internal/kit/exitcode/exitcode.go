// Package exitcode has the exit statuses of cmd/slurmlet, from sysexits.h where it has one.
// docs/reference/status.md lists them; its table is written from the comments below.
package exitcode

import "errors"

const (
	// OK says that the container stopped in order after SIGTERM, SIGINT or SIGRTMIN+3. A slurmd that crashes or hangs
	// while it stops counts as in order if slurmctld has deleted its record
	OK = 0
	// Failure says that the agent itself has failed; of `slurmlet check`, that an error is among the findings; of `slurmlet
	// diff`, that there is a difference; of `slurmlet reload`, `drain`, `resume` and `deadline`, that it was refused
	Failure = 1
	// Usage says that there is no such role, command or flag (EX_USAGE)
	Usage = 64
	// Unavailable says that no agent answers `slurmlet status`, `probe` or another command (EX_UNAVAILABLE)
	Unavailable = 69
	// Missing says that the container lacks something: the daemon, scontrol, sdiag, sinfo, squeue, a key, a user
	// (EX_OSFILE)
	Missing = 72
	// NotReady says that the grace period ended before the agent was sure that the node record and jobs are gone; of
	// `slurmlet status` and `slurmlet probe`, that the agent is not Ready (EX_TEMPFAIL)
	NotReady = 75
	// Cgroup says that Slurm cannot limit jobs by cgroup, and `SLURMLET_CGROUP` requires it (EX_NOPERM)
	Cgroup = 77
	// Config says that the configuration or a limit is faulty, or that what Slurm has saved is of another version, which
	// may not be converted (EX_CONFIG)
	Config = 78
)

// Left is the status of an agent whose time was over.
const Left = NotReady

// IsFault says whether an error asks for a status.
func IsFault(err error) bool {
	_, is := errors.AsType[*Fault](err)
	return is
}

// Of is the status that an error asks for, Failure where it asks for none.
func Of(err error) int {
	if fault, is := errors.AsType[*Fault](err); is {
		return fault.Code
	}
	return Failure
}

// Fault is an error that says with which status the program should exit.
type Fault struct {
	Code int
	Err  error
}

func (f *Fault) Error() string { return f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }
