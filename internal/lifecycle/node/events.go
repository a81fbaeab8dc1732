package node

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// These events are about the node's record and its jobs.
type (
	// Answered: slurmctld's answer to question Number; Node is the record, nil
	// for none. To Reach, it means that slurmctld's port takes connections.
	Answered struct {
		Number int
		Node   *slurm.Node
		// Steps run here. They are counted if the record is busy, and on the way down always.
		Steps int
		// Jobs hold the node, as far as they are known. They are asked for on the way down only.
		Jobs []slurm.Job
		Err  error
		// Late: the question has taken all of QuestionLimit.
		Late bool
		// Doubtful: the node is shown as allocated, no step runs here, and slurmctld may not
		// have counted its CPUs since its last job. Jobs are left out then, unless asked for.
		Doubtful bool
		// Counted: Jobs are all that slurmctld counts here. Nobody asks for all while a step runs.
		Counted bool
		// Elsewhere are jobs that have run here, and that end on other nodes. They count on the way
		// down only: a resize makes the record anew at once.
		Elsewhere []slurm.Job
		// Unreported is how many of Jobs have ended here, as slurmstepd has still to report to slurmctld.
		Unreported int
		// Main is the process that was the main one when it was asked, and Began when that one
		// began, by the clock as it goes now.
		Main  int
		Began time.Time
	}
	// Done: what was to be done to the record under that number is done.
	Done struct {
		Number int
		Err    error
	}
	// Measured: the pod was looked at again.
	Measured struct {
		nodesize.Allocation
		At  time.Time
		Err error
	}
	// StepsEnded: a job's step has ended on this node.
	StepsEnded struct{}
	// StepsCounted: so many run here.
	StepsCounted struct{ Number, Steps int }
	// SlurmctldLost: slurmctld's agent has ended, and slurmctld with it.
	SlurmctldLost struct{}
	// LaunchRefused: slurmd runs a job already that slurmctld has had it launch.
	LaunchRefused struct{}
	// LostJobsFound: slurmctld counts these jobs as running here, and they are not.
	LostJobsFound struct {
		Number int
		Lost   []string
		Err    error
	}
)

// These events are about slurmd. The main process's own events come to the supervisor.
type (
	// Started: a slurmd has been started.
	Started struct{}
	// Announced: it is READY.
	Announced struct{}
)
