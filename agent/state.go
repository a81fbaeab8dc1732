package agent

import (
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// State is where a container stands in its life.
type State string

// The states. Ready and Reloading serve; the others do not.
const (
	Starting  State = "Starting"
	Ready     State = "Ready"
	Reloading State = "Reloading" // a re-executed daemon has taken over and is being looked at
	Resizing  State = "Resizing"  // the pod is of another size than its record, which must be free of jobs to follow
	Stopping  State = "Stopping"
	Exited    State = "Exited"
)

// Serving says whether the daemon does its work in this state. A node that is
// Resizing runs its jobs to their end, and their names must resolve meanwhile.
func (s State) Serving() bool { return s == Ready || s == Reloading || s == Resizing }

// doing is what a container is busy with.
type doing string

const (
	awaiting   doing = "waiting for a description that can be used"
	reaching   doing = "reaching what the daemon needs"
	launching  doing = "waiting for the daemon's READY"
	confirming doing = "waiting for the service to be confirmed" // by a ping, by the node record, or by an answer
	burying    doing = "ending the jobs that have died with an earlier container"
	doubting   doing = "asking what the daemon needs" // it serves, but has complained
	resuming   doing = "lifting the agent's own drain"
	describing doing = "bringing the node record's features, topology and weight up to date"
	leaving    doing = "waiting for the old node record to be free"
	deleting   doing = "deleting the old node record"
	replacing  doing = "restarting slurmd, to register anew"
	preparing  doing = "finding a configuration to start with"
	pausing    doing = "pausing before the next start"
	nothing    doing = ""

	// On the way down.
	parting     doing = "waiting for sessions to end"
	speaking    doing = "starting sackd, to ask slurmctld without slurmd"
	withdrawing doing = "looking at the node record"
	draining    doing = "draining the node"
	finishing   doing = "waiting for the node's jobs to end"
	requeueing  doing = "requeueing the node's jobs"
	failing     doing = "setting the node DOWN"
	ending      doing = "waiting for the daemon to stop"
)

// plan is what does not change during a life.
type plan struct {
	// registers, restarts, announces, hosts: see part. reaches: something must be
	// reached before the daemon is started.
	registers, restarts, announces, hosts, reaches bool
	// gresConf is the file that the cluster's gres.conf must include.
	gresConf string
	// way is that of SLURMLET_GRACE_PERIOD until SIGTERM comes, and less time is
	// granted (hasten). lead is that of the jobs' signal.
	way  wayDown
	lead time.Duration
	// reloads: the configuration is the agent's to put in place (slurmctld).
	reloads bool
	// signals: jobs get a signal ahead of their requeue.
	signals bool
}

// life is the whole state that step works on: a value without clock or I/O.
type life struct {
	plan
	configuration
	// Allocation is never changed in place, and large: step copies a life.
	*nodesize.Allocation
	state State
	doing doing
	// reason says what it waits for or what went wrong last.
	reason string
	// held is why nothing can be started yet, fault why the last change of the pod
	// could not be followed, refusal why slurmctld did not take the traits.
	held, fault, refusal string
	// settled is the traits that were brought to the record's notice.
	settled nodesize.Traits
	// main is the living main process, 0 for none; starting: one was asked for
	// and has not been reported yet.
	main     int
	starting bool
	// mainSince is when main began: a record must name a slurmd as young.
	mainSince time.Time
	// filesSince is when the files changed that main must have read.
	filesSince time.Time
	// tries counts questions without the hoped-for answer, failures the ends of
	// the daemon in a row, restarts its starts.
	tries, failures, starts int
	// timer is the number of the one that is armed; others that fire are stale.
	timer int
	// question is the number of the one that is open; other answers are stale.
	question int
	// killed: SIGKILL was sent to the main process.
	killed bool
	// wasReady: it has been Ready once.
	wasReady bool
	// unclaimed: slurmctld may count jobs on the node of which nothing runs here, as
	// it did when the node registered first, or because it was started anew itself.
	unclaimed bool
	// seeks counts how often such jobs were found.
	seeks int
	// listed: slurmctld may have a record of this node. It has deleted it, or has said
	// that there is none, when this is false again, and no slurmd has begun since that
	// would make another.
	listed bool
	// inherits: an earlier container has left steps here, whose jobs slurmctld may
	// take for running. They have not been looked for yet.
	inherits bool
	// seen: slurmctld has seen main register, which comes after its READY.
	seen bool
	// voiced: scontrol has its credentials from a sackd of the agent's. voiceless: none could be started.
	voiced, voiceless bool
	// revived: slurmd was restarted because slurmctld had no answer of it.
	revived bool
	// bounded: the deadlines of the way down run. stepEnded: a step has ended while
	// the record was being looked at; looks counts how often jobs held it still.
	bounded, stepEnded bool
	looks              int
	// running is how many steps are waited for, 0 while the record is being looked at.
	running int
	// stoppedAt is when SIGTERM came, ordered a deadline that somebody has set by
	// hand, by who grants less time than SLURMLET_GRACE_PERIOD.
	stoppedAt time.Time
	ordered   cgroup.Bound[time.Time]
	by        string
	// passed are the deadlines of the way down that are over, stage is the last of
	// them, acted the last that was followed; refusals counts how often slurmctld
	// kept the record.
	passed       [toStop + 1]bool
	stage, acted stage
	refusals     int
	// jobs are those of the node when slurmctld was asked last, left is what could
	// not be done before the end.
	jobs []slurm.Job
	left string
	code int
}

// newLife is the state before the first event.
func newLife(p plan, a nodesize.Allocation) life {
	return life{plan: p, Allocation: &a, state: Starting, doing: nothing}
}

// event is something that happened in the world.
type event interface{ event() }

type (
	begun       struct{}
	mainStarted struct {
		pid int
		at  time.Time
	}
	// mainFailed: the daemon could not be started at all.
	mainFailed struct{ err error }
	// mainReady: the main process sent READY=1.
	mainReady struct{}
	// mainChanged: MAINPID named another process, which was adopted.
	mainChanged struct {
		pid int
		at  time.Time
	}
	mainExited struct {
		pid    int
		code   int
		what   string // "exited with status 1", and the daemon's last words
		uptime time.Duration
	}
	// answered: slurmctld's answer to question number; node is the record, nil
	// for none. To reach, it means that slurmctld's port takes connections.
	answered struct {
		number int
		node   *slurm.Node
		// steps are those that run here, if the record is busy; jobs are the node's,
		// on the way down only.
		jobs  []slurm.Job
		steps int
		err   error
		// counted: jobs are all that slurmctld knows of.
		counted bool
		// main is the process that was main when it was asked, and began when that one
		// began, by the clock as it goes now.
		main  int
		began time.Time
	}
	// carriedOut: what was to be done to the record under that number is done.
	carriedOut struct {
		number int
		err    error
	}
	// measured: the pod was looked at again.
	measured struct {
		nodesize.Allocation
		at  time.Time
		err error
	}
	// ordered: somebody has set a deadline by hand.
	ordered struct{ at, deadline time.Time }
	// stepsEnded: a job's step has ended on this node.
	stepsEnded struct{}
	// stepsCounted: so many run here.
	stepsCounted struct{ number, steps int }
	timerFired   struct{ number int }
	terminated   struct {
		at     time.Time
		signal string
		again  bool // a second SIGINT: hurry
		idle   bool // no step runs here
	}
	// mainSilent: the main process takes connections on its socket and does not answer
	// them, though slurmctld can be reached.
	mainSilent struct{ pid int }
	// troubled: the daemon complains of what it needs.
	troubled struct{}
	// filesChanged: the daemon's files have changed, and some only count for a new
	// process. With since, it is known that a process which began before has not read them.
	filesChanged struct {
		restart bool
		since   time.Time
	}
	// sessionsOver: nobody is logged in any more, and nobody can log in.
	sessionsOver struct{}
	// deadline: one of the way down is over.
	deadline struct{ stage stage }
	hungUp   struct{}
	// checked: a set was looked at. It lies ready in the directory staged, unless
	// err says what is wrong with it; changes is what it changes. anew: some of it counts
	// for a slurmctld that starts only.
	checked struct {
		number  int
		staged  string
		changes []string
		anew    bool
		err     error
	}
	// launchesOver: slurmctld has told the nodes what it had to, or was waited for long
	// enough; err says what keeps the set from being used after all.
	launchesOver struct {
		number int
		err    error
	}
	placeEnded struct {
		number int
		err    error
	}
	reconfigureEnded struct {
		number int
		err    error
	}
	// nodesAsked: so many nodes have another slurmd since the reconfigure; missed have
	// answered slurmctld with the one that they had, of the unheard it has heard nothing yet.
	// canary: the one whose slurmd was to be restarted is among the first. To ask took cost.
	nodesAsked struct {
		number          int
		took            int
		missed, unheard []string
		canary          bool
		cost            time.Duration
		err             error
	}
	reloadTimer struct{ number int }
	// outdated: the daemon's configuration is not that of slurmctld, and stays so.
	outdated struct{}
	// controllerLost: slurmctld's agent has ended, and slurmctld with it.
	controllerLost struct{}
	// lostSought: slurmctld counts these jobs as running here, and they are not.
	lostSought struct {
		number int
		lost   []string
		err    error
	}
)

func (begun) event()        {}
func (mainStarted) event()  {}
func (mainFailed) event()   {}
func (mainReady) event()    {}
func (mainChanged) event()  {}
func (mainExited) event()   {}
func (answered) event()     {}
func (carriedOut) event()   {}
func (measured) event()     {}
func (ordered) event()      {}
func (stepsEnded) event()   {}
func (timerFired) event()   {}
func (terminated) event()   {}
func (hungUp) event()       {}
func (sessionsOver) event() {}
func (stepsCounted) event() {}
func (troubled) event()     {}
func (mainSilent) event()   {}
func (filesChanged) event() {}
func (deadline) event()     {}

func (edition) event()          {}
func (checked) event()          {}
func (placeEnded) event()       {}
func (launchesOver) event()     {}
func (reconfigureEnded) event() {}
func (nodesAsked) event()       {}
func (reloadTimer) event()      {}
func (outdated) event()         {}
func (controllerLost) event()   {}
func (lostSought) event()       {}

// action is something to do in the world.
type action interface{ action() }

type (
	startMain  struct{}
	signalMain struct{ signal mainSignal }
	reach      struct{ number int }
	ask        struct{ number int }
	// speak starts a sackd, from which scontrol has its credentials then.
	speak        struct{ number int }
	deleteRecord struct{ number int }
	drainRecord  struct {
		number int
		reason string
	}
	resumeRecord struct{ number int }
	// endDeadJobs ends those that have died with an earlier container.
	endDeadJobs struct{ number int }
	// seekLost looks for jobs that slurmctld counts as running here, and that are not.
	seekLost struct{ number int }
	// updateRecord changes fields of the record, in scontrol's words.
	updateRecord struct {
		number int
		fields []string
	}
	arm struct {
		number int
		after  time.Duration
	}
	// schedule posts a deadline.
	schedule struct {
		stage stage
		after time.Duration
	}
	// countSteps counts those that run here; slurmctld does not hear of it.
	countSteps struct{ number int }
	signalJobs struct{}
	// requeueJobs requeues those that may be, and tells of those that may not.
	requeueJobs struct{ number int }
	// killRequeued kills what runs here of jobs that slurmctld has ended.
	killRequeued struct{}
	// failRecord sets the node DOWN: what is left on it ends as NODE_FAIL.
	failRecord struct {
		number int
		reason string
	}
	// endSteps asks the steps' processes to end, or kills them: their jobs are
	// over, or the time is.
	endSteps struct{ kill bool }
	// holdSteps keeps the steps' slurmstepd from telling of ends from now on.
	holdSteps struct{}
	// killSteps ends steps with their slurmstepd: nobody waits for their word.
	killSteps struct{}
	// seeOff keeps new sessions out, warns those that are there, until so long from
	// now, and tells when the last is over.
	seeOff struct{ until time.Duration }
	// warnSessions warns them again.
	warnSessions struct{ until time.Duration }
	// endSessions asks them to end, or kills them.
	endSessions struct{ kill bool }
	exit        struct{ code int }
	// check looks at a set for the slurmctld that runs, and stages it.
	check struct {
		number int
		set    *confset.Set
	}
	// checkFirst does so before slurmctld runs; good is nil where no set was good before.
	checkFirst struct {
		number    int
		set, good *confset.Set
	}
	// awaitLaunches waits until slurmctld has told the nodes what it has to, no longer
	// than limit.
	awaitLaunches struct {
		number int
		limit  time.Duration
	}
	// place makes a set the live one; staged is empty for one that does not lie ready.
	place struct {
		number int
		set    *confset.Set
		staged string
	}
	// reconfigure does as place, and has slurmctld and the nodes read it.
	reconfigure struct {
		number int
		set    *confset.Set
		staged string
	}
	// askNodes asks after a while which nodes have reconfigured. Before, it has the
	// slurmds of some restarted.
	askNodes struct {
		number int
		after  time.Duration
		urge   []string
	}
	// keep makes a set the one that the next container can fall back on.
	keep      struct{ set *confset.Set }
	armReload struct {
		number int
		after  time.Duration
	}
)

// mainSignal is what the main process may be sent.
type mainSignal string

const (
	sigTerm mainSignal = "SIGTERM"
	sigHup  mainSignal = "SIGHUP"
	sigKill mainSignal = "SIGKILL"
)

func (startMain) action()     {}
func (signalMain) action()    {}
func (reach) action()         {}
func (ask) action()           {}
func (speak) action()         {}
func (deleteRecord) action()  {}
func (drainRecord) action()   {}
func (resumeRecord) action()  {}
func (endDeadJobs) action()   {}
func (seekLost) action()      {}
func (updateRecord) action()  {}
func (arm) action()           {}
func (exit) action()          {}
func (schedule) action()      {}
func (countSteps) action()    {}
func (signalJobs) action()    {}
func (requeueJobs) action()   {}
func (killRequeued) action()  {}
func (failRecord) action()    {}
func (endSteps) action()      {}
func (holdSteps) action()     {}
func (killSteps) action()     {}
func (seeOff) action()        {}
func (warnSessions) action()  {}
func (endSessions) action()   {}
func (check) action()         {}
func (checkFirst) action()    {}
func (awaitLaunches) action() {}
func (place) action()         {}
func (reconfigure) action()   {}
func (askNodes) action()      {}
func (keep) action()          {}
func (armReload) action()     {}
