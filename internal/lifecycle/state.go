package lifecycle

import (
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// State is where a container stands in its life.
type Phase string

// The states. Ready and Reloading serve; the others do not.
const (
	Starting  Phase = "Starting"
	Ready     Phase = "Ready"
	Reloading Phase = "Reloading" // a re-executed daemon has taken over and is being looked at
	Resizing  Phase = "Resizing"  // the pod is of another size than its record, which must be free of jobs to follow
	Stopping  Phase = "Stopping"
	Exited    Phase = "Exited"
)

// Serving says whether the daemon does its work in this state. A node that is
// Resizing runs its jobs to their end, and their names must resolve meanwhile.
func (s Phase) Serving() bool { return s == Ready || s == Reloading || s == Resizing }

// Activity is what a container is busy with.
type Activity string

const (
	AwaitingDescription Activity = "waiting for a description that can be used"
	Reaching            Activity = "reaching what the daemon needs"
	Launching           Activity = "waiting for the daemon's READY"
	Confirming          Activity = "waiting for the service to be confirmed" // by a ping, by the node record, or by an answer
	EndingStaleJobs     Activity = "ending the jobs that have died with an earlier container"
	Doubting            Activity = "asking what the daemon needs" // it serves, but has complained
	Resuming            Activity = "lifting the agent's own drain"
	Describing          Activity = "bringing the node record's features, topology and weight up to date"
	Leaving             Activity = "waiting for the old node record to be free"
	Deleting            Activity = "deleting the old node record"
	Replacing           Activity = "restarting slurmd, to register anew"
	Preparing           Activity = "finding a configuration to start with"
	Pausing             Activity = "pausing before the next start"
	Idle                Activity = ""

	// On the way down.
	AwaitingSessions Activity = "waiting for sessions to end"
	StartingSackd    Activity = "starting sackd, to ask slurmctld without slurmd"
	Withdrawing      Activity = "looking at the node record"
	Draining         Activity = "draining the node"
	Finishing        Activity = "waiting for the node's jobs to end"
	Requeueing       Activity = "requeueing the node's jobs"
	Failing          Activity = "setting the node DOWN"
	Ending           Activity = "waiting for the daemon to stop"
)

// Plan is what does not change during a life.
type Plan struct {
	// Registers, restarts, announces, hosts: see part. reaches: something must be
	// reached before the daemon is started.
	Registers, Restarts, Announces, Hosts, Reaches bool
	// GresConf is the file that the cluster's gres.conf must include.
	GresConf string
	// Deadlines is that of SLURMLET_GRACE_PERIOD until SIGTERM comes, and less time is
	// granted (hasten). lead is that of the jobs' signal.
	Deadlines Deadlines
	Lead      time.Duration
	// Reloads: the configuration is the agent's to put in place (slurmctld).
	Reloads bool
	// Signals: jobs get a signal ahead of their requeue.
	Signals bool
}

// State is the whole state that step works on: a value without clock or I/O.
type State struct {
	Plan
	configuration
	// Allocation is never changed in place, and large: step copies a life.
	*nodesize.Allocation
	Phase    Phase
	Activity Activity
	// Reason says what it waits for or what went wrong last.
	Reason string
	// Held is why nothing can be started yet, fault why the last change of the pod
	// could not be followed, refusal why slurmctld did not take the traits.
	Held, Fault, Refusal string
	// settled is the traits that were brought to the record's notice.
	settled nodesize.Traits
	// Main is the living main process, 0 for none; starting: one was asked for
	// and has not been reported yet.
	Main     int
	starting bool
	// MainSince is when main began: a record must name a slurmd as young.
	MainSince time.Time
	// filesSince is when the files changed that main must have read.
	filesSince time.Time
	// Tries counts questions without the hoped-for answer, failures the ends of
	// the daemon in a row, restarts its starts.
	Tries, failures, Starts int
	// timer is the number of the one that is armed; others that fire are stale.
	timer int
	// question is the number of the one that is open; other answers are stale.
	question int
	// killed: SIGKILL was sent to the main process.
	killed bool
	// WasReady: it has been Ready once.
	WasReady bool
	// unclaimed: slurmctld may count jobs on the node of which nothing runs here, as
	// it did when slurmd registered first or after its death, or because slurmctld was started anew.
	unclaimed bool
	// seeks counts how often such jobs were found.
	seeks int
	// listed: slurmctld may have a record of this node. It has deleted it, or has said
	// that there is none, when this is false again, and no slurmd has begun since that
	// would make another.
	listed bool
	// Inherits: an earlier container has left steps here, whose jobs slurmctld may
	// take for running. They have not been looked for yet.
	Inherits bool
	// seen: slurmctld has seen main register, which comes after its READY.
	seen bool
	// hasSackd: scontrol has its credentials from a sackd of the agent's. voiceless: none could be started.
	hasSackd, noSackd bool
	// revived: slurmd was restarted because slurmctld had no answer of it.
	revived bool
	// bounded: the deadlines of the way down run. stepEnded: a step has ended while
	// the record was being looked at; looks counts how often jobs held it still.
	bounded, stepEnded bool
	looks              int
	// running is how many steps are waited for, 0 while the record is being looked at.
	running int
	// StoppedAt is when SIGTERM came, ordered a deadline that somebody has set by
	// hand, by who grants less time than SLURMLET_GRACE_PERIOD.
	StoppedAt  time.Time
	Deadline   cgroup.Bound[time.Time]
	HastenedBy string
	// passed are the deadlines of the way down that are over, stage is the last of
	// them, acted the last that was followed; refusals counts how often slurmctld
	// kept the record.
	passed       [toStop + 1]bool
	stage, acted Stage
	refusals     int
	// Jobs are those of the node when slurmctld was asked last, left is what could
	// not be done before the end.
	Jobs []slurm.Job
	Left string
	Code int
}

// New is the state before the first event.
func New(p Plan, a nodesize.Allocation) State {
	return State{Plan: p, Allocation: &a, Phase: Starting, Activity: Idle}
}

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
	// Answered: slurmctld's answer to question number; node is the record, nil
	// for none. To reach, it means that slurmctld's port takes connections.
	Answered struct {
		Number int
		Node   *slurm.Node
		// steps are those that run here, if the record is busy; jobs are the node's,
		// on the way down only.
		Jobs  []slurm.Job
		Steps int
		Err   error
		// Late: the question has taken all of QuestionLimit.
		Late bool
		// Counted: jobs are all that slurmctld knows of.
		Counted bool
		// Main is the process that was main when it was asked, and began when that one
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
	// DeadlineSet: somebody has set a deadline by hand.
	DeadlineSet struct{ At, Deadline time.Time }
	// StepsEnded: a job's step has ended on this node.
	StepsEnded struct{}
	// StepsCounted: so many run here.
	StepsCounted struct{ Number, Steps int }
	TimerFired   struct{ Number int }
	Terminated   struct {
		At     time.Time
		Signal string
		Again  bool // a second SIGINT: hurry
		Idle   bool // no step runs here
	}
	// MainSilent: the main process takes connections on its socket and does not answer
	// them, though slurmctld can be reached.
	MainSilent struct{ PID int }
	// Troubled: the daemon complains of what it needs.
	Troubled struct{}
	// FilesChanged: the daemon's files have changed, and some only count for a new
	// process. With since, it is known that a process which began before has not read them.
	FilesChanged struct {
		Restart bool
		Since   time.Time
	}
	// SessionsOver: nobody is logged in any more, and nobody can log in.
	SessionsOver struct{}
	// DeadlinePassed: one of the way down is over.
	DeadlinePassed struct{ Stage Stage }
	HungUp         struct{}
	// Checked: a set was looked at. It lies ready in the directory staged, unless
	// err says what is wrong with it; changes is what it changes. anew: some of it counts
	// for a slurmctld that starts only.
	Checked struct {
		Number  int
		Staged  string
		Changes []string
		Anew    bool
		Err     error
	}
	// LaunchesOver: slurmctld has told the nodes what it had to, or was waited for long
	// enough; err says what keeps the set from being used after all.
	LaunchesOver struct {
		Number int
		Err    error
	}
	PlaceEnded struct {
		Number int
		Err    error
	}
	ReconfigureEnded struct {
		Number int
		Err    error
	}
	// NodesAsked: so many nodes have another slurmd since the reconfigure; missed have
	// answered slurmctld with the one that they had, of the unheard it has heard nothing yet.
	// canary: the one whose slurmd was to be restarted is among the first. To ask took cost.
	NodesAsked struct {
		Number          int
		Took            int
		Missed, Unheard []string
		Canary          bool
		Cost            time.Duration
		Err             error
	}
	ReloadTimerFired struct{ Number int }
	// Outdated: the daemon's configuration is not that of slurmctld, and stays so.
	Outdated struct{}
	// ControllerLost: slurmctld's agent has ended, and slurmctld with it.
	ControllerLost struct{}
	// LostJobsFound: slurmctld counts these jobs as running here, and they are not.
	LostJobsFound struct {
		Number int
		Lost   []string
		Err    error
	}
)

// Action is something to do in the world.
type Action any

type (
	StartMain  struct{}
	SignalMain struct{ Signal MainSignal }
	Reach      struct{ Number int }
	Ask        struct{ Number int }
	// StartSackd starts a sackd, from which scontrol has its credentials then.
	StartSackd   struct{ Number int }
	DeleteRecord struct{ Number int }
	DrainRecord  struct {
		Number int
		Reason string
	}
	ResumeRecord struct{ Number int }
	// EndStaleJobs ends those that have died with an earlier container.
	EndStaleJobs struct{ Number int }
	// FindLostJobs looks for jobs that slurmctld counts as running here, and that are not.
	FindLostJobs struct{ Number int }
	// UpdateRecord changes fields of the record, in scontrol's words.
	UpdateRecord struct {
		Number int
		Fields []string
	}
	Arm struct {
		Number int
		After  time.Duration
	}
	// Schedule posts a deadline.
	Schedule struct {
		Stage Stage
		After time.Duration
	}
	// CountSteps counts those that run here; slurmctld does not hear of it.
	CountSteps struct{ Number int }
	SignalJobs struct{}
	// RequeueJobs requeues those that may be, and tells of those that may not.
	RequeueJobs struct{ Number int }
	// KillRequeued kills what runs here of jobs that slurmctld has ended.
	KillRequeued struct{}
	// FailRecord sets the node DOWN: what is left on it ends as NODE_FAIL.
	FailRecord struct {
		Number int
		Reason string
	}
	// EndSteps asks the steps' processes to end, or kills them: their jobs are
	// over, or the time is.
	EndSteps struct{ Kill bool }
	// HoldSteps keeps the steps' slurmstepd from telling of ends from now on.
	HoldSteps struct{}
	// KillSteps ends steps with their slurmstepd: nobody waits for their word.
	KillSteps struct{}
	// DrainSessions keeps new sessions out, warns those that are there, until so long from
	// now, and tells when the last is over.
	DrainSessions struct{ Until time.Duration }
	// WarnSessions warns them again.
	WarnSessions struct{ Until time.Duration }
	// EndSessions asks them to end, or kills them.
	EndSessions struct{ Kill bool }
	Exit        struct{ Code int }
	// Check looks at a set for the slurmctld that runs, and stages it.
	Check struct {
		Number int
		Set    *confset.Set
	}
	// CheckFirst does so before slurmctld runs; good is nil where no set was good before.
	CheckFirst struct {
		Number    int
		Set, Good *confset.Set
	}
	// AwaitLaunches waits until slurmctld has told the nodes what it has to, no longer
	// than limit.
	AwaitLaunches struct {
		Number int
		Limit  time.Duration
	}
	// Place makes a set the live one; staged is empty for one that does not lie ready.
	Place struct {
		Number int
		Set    *confset.Set
		Staged string
	}
	// Reconfigure does as place, and has slurmctld and the nodes read it.
	Reconfigure struct {
		Number int
		Set    *confset.Set
		Staged string
	}
	// AskNodes asks after a while which nodes have reconfigured. Before, it has the
	// slurmds of some restarted.
	AskNodes struct {
		Number  int
		After   time.Duration
		Restart []string
	}
	// Keep makes a set the one that the next container can fall back on.
	Keep      struct{ Set *confset.Set }
	ArmReload struct {
		Number int
		After  time.Duration
	}
)

// MainSignal is what the main process may be sent.
type MainSignal string

const (
	SigTerm MainSignal = "SIGTERM"
	SigHup  MainSignal = "SIGHUP"
	SigKill MainSignal = "SIGKILL"
)
