package lifecycle

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// Event is something that happened in the world.
type Event any

type (
	Begun       struct{}
	MainStarted struct {
		PID int
		At  time.Time
	}
	// MainFailed: the daemon could not be started at all.
	MainFailed struct{ Err error }
	// MainReady: the main process sent READY=1.
	MainReady struct{}
	// MainChanged: MAINPID named another process, which was adopted.
	MainChanged struct {
		PID int
		At  time.Time
	}
	MainExited struct {
		PID    int
		Code   int
		What   string // "exited with status 1", and the daemon's last words
		Uptime time.Duration
	}
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
		// Untold is how many of Jobs have ended here, as slurmstepd has still to tell slurmctld.
		Untold int
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
	// DeadlineSet: Source has said when the pod is killed: at Deadline, or Grace after SIGTERM.
	DeadlineSet struct {
		At, Deadline time.Time
		Grace        time.Duration
		Source       string
	}
	// StepsEnded: a job's step has ended on this node.
	StepsEnded struct{}
	// StepsCounted: so many run here.
	StepsCounted struct{ Number, Steps int }
	TimerFired   struct{ Number int }
	Terminated   struct {
		At     time.Time
		Signal string
		Again  bool // a second SIGINT: hurry
		Idle   bool // no step runs here, and none has ended lately
	}
	// MainHung: the main process takes connections on its socket and does not answer
	// them, though slurmctld can be reached.
	MainHung struct{ PID int }
	// ControllerMoved: the peers' table has another address of slurmctld's.
	ControllerMoved struct{}
	// DatabaseAway: slurmdbd has no connection to its database, and waits some seconds before its next try.
	DatabaseAway struct{}
	// Troubled: the daemon complains of what it needs.
	Troubled struct{}
	// FilesChanged: the daemon's files have changed, and some only count for a new
	// process. With Since, it is known that a process which began before has not read them.
	FilesChanged struct {
		Restart bool
		Since   time.Time
	}
	// SessionsOver: nobody is logged in any more, and nobody can log in.
	SessionsOver struct{}
	// DeadlinePassed: one of the way down is over.
	DeadlinePassed struct{ Stage Stage }
	HungUp         struct{}
	// Outdated: the daemon's configuration is not that of slurmctld, and stays so.
	Outdated struct{}
	// ControllerLost: slurmctld's agent has ended, and slurmctld with it.
	ControllerLost struct{}
	// StateHeld: another agent has what slurmctld has saved, and this one waits for its end.
	StateHeld struct{ Why string }
	// LaunchRefused: slurmd runs a job already that slurmctld has had it launch.
	LaunchRefused struct{}
	// LostJobsFound: slurmctld counts these jobs as running here, and they are not.
	LostJobsFound struct {
		Number int
		Lost   []string
		Err    error
	}
)
