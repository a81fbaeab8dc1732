package lifecycle

import (
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// Plan is what does not change during a life.
type Plan struct {
	// Registers, Restarts, Announces, Hosts: see part in agent/role.go. Reaches: something must be
	// reached before the daemon is started.
	Registers, Restarts, Announces, Hosts, Reaches bool
	// Converts: the daemon may convert a database before it listens, and any signal would end it.
	Converts bool
	// Elastic: the node's record is to be one with CLOUD, which slurmctld's power saving starts and ends.
	Elastic bool
	// GresConf is the file that the cluster's gres.conf must include.
	GresConf string
	// Deadlines is that of SLURMLET_GRACE_PERIOD until SIGTERM comes, and less time is
	// granted (hasten). Lead is how long before their requeue jobs get a signal.
	Deadlines Deadlines
	Lead      time.Duration
	// Reloads: the configuration is the agent's to put in place (slurmctld).
	Reloads bool
	// Signals: jobs get a signal ahead of their requeue.
	Signals bool
}

// State is the whole state that Step works on: a value without clock or I/O. It is a life's, from
// the container's start to its end, and methods call it l.
type State struct {
	Plan
	// Conf is slurmctld's configuration; other roles have none.
	Conf conf.State
	// Allocation is never changed in place, and large: Step copies a life.
	*nodesize.Allocation
	Phase    Phase
	Activity Activity
	// Reason says what it waits for or what went wrong last.
	Reason string
	// Unstartable is why nothing can be started yet, Fault why the last change of the pod
	// could not be followed, Refusal why slurmctld did not take the traits.
	Unstartable, Fault, Refusal string
	// Unlike is in what an elastic node's record is another one than the pod.
	Unlike string
	// settled is the traits that were brought to the record's notice.
	settled nodesize.Traits
	// Main is the living main process, 0 for none; starting: one was asked for
	// and has not been reported yet.
	Main     int
	starting bool
	// MainSince is when Main began: a record must name a slurmd as young.
	MainSince time.Time
	// filesSince is when the files changed that Main must have read.
	filesSince time.Time
	// Tries counts questions without the hoped-for answer, failures the ends of
	// the daemon in a row, Starts its starts.
	Tries, failures, Starts int
	// crashes counts those of slurmctld in a row.
	crashes int
	// timer is the number of the one that is armed; others that fire are stale.
	timer int
	// question is the number of the one that is open; other answers are stale.
	question int
	// pace is how often the record has been changed.
	pace pace
	// listens: main takes connections, and converts nothing any more. unread is how it is told of edits then.
	listens bool
	unread  telling
	// killed: SIGKILL was sent to the main process.
	killed bool
	// hung: that was because it hung when it was to stop, and nothing could be lost.
	hung bool
	// WasReady: it has been Ready once.
	WasReady bool
	// unclaimed: slurmctld may count jobs on the node of which nothing runs here, as
	// it did when slurmd registered first or after its death, or because slurmctld was started anew.
	unclaimed bool
	// reconciles counts how often such jobs were found. lookedEarly: an elastic node has been looked at once.
	reconciles  int
	lookedEarly bool
	// relaunched: slurmd has refused to launch a job that it runs already, which has not been mended yet.
	relaunched bool
	// listed: slurmctld may have a record of this node. It has deleted it, or has said
	// that there is none, when this is false again, and no slurmd has begun since that
	// would make another.
	listed bool
	// Inherits: an earlier container has left steps here, whose jobs slurmctld may
	// take for running. They have not been looked for yet.
	Inherits bool
	// Fresh: this is the first container here, so what slurmctld counts here of before is dead. It has not been
	// looked for yet.
	Fresh bool
	// seen: slurmctld has seen main register, which comes after its READY.
	seen bool
	// awaited: slurmctld has waited for main to come up. wasUp: an elastic node's record was that of one
	// that is up, with main or without.
	awaited, wasUp bool
	// tookOver: main is the successor of a slurmd that had registered the same size.
	tookOver bool
	// deleted: slurmctld has deleted the record on the way down, and has not yet said that there
	// is none.
	deleted bool
	// keepsIt: slurmctld has refused to delete the record of a node that may have been idle, so jobs
	// hold it. doubted is what was told of it before.
	keepsIt bool
	doubted Answered
	// hasSackd: scontrol has its credentials from a sackd of the agent's. noSackd: none could be started.
	hasSackd, noSackd bool
	// revived: slurmd was restarted because slurmctld had no answer of it.
	revived bool
	// bounded: the deadlines of the way down run. stepEnded: a step has ended while
	// the record was being looked at; looks counts how often jobs held it still.
	bounded, stepEnded bool
	looks              int
	// running is how many steps are waited for, 0 while the record is being looked at.
	running int
	// StoppedAt is when SIGTERM came, Deadline is one that somebody has set by hand, Granted the time
	// from SIGTERM on that the pod's deletion grants, and HastenedBy who grants less than
	// SLURMLET_GRACE_PERIOD.
	StoppedAt  time.Time
	Deadline   cgroup.Bound[time.Time]
	Granted    cgroup.Bound[time.Duration]
	HastenedBy string
	// passed are the deadlines of the way down that are over, stage is the last of
	// them, acted the last that was followed; refusals counts how often slurmctld
	// kept the record.
	passed       [toEnd + 1]bool
	stage, acted Stage
	refusals     int
	// Jobs are those of the node when slurmctld was asked last, Left is what could
	// not be done before the end. Unanswered: slurmctld did not answer the last
	// question of the way down.
	Jobs       []slurm.Job
	Left       string
	Unanswered bool
	Code       int
}

// New is the state before the first event.
func New(p Plan, a nodesize.Allocation) State {
	return State{Plan: p, Allocation: &a, Phase: Starting, Activity: Idle}
}
