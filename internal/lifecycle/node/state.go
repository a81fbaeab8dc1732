// Package node is the life of slurmd's node: slurmctld's record of it is compared with the pod,
// kept up to date, and taken back on the way down, when its jobs are over. It is pure.
//
// slurmd itself is the supervisor's, which the machine uses and hands back. `go test
// ./internal/lifecycle/...` tests it, by transcripts and the fuzzer's stories.
package node

import (
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// Plan is what does not change during a life.
type Plan struct {
	// Elastic: the node's record is to be one with CLOUD, which slurmctld's power saving starts and ends.
	Elastic bool
	// GresConf is the file that the cluster's gres.conf must include.
	GresConf string
	// Signals: jobs get a signal ahead of their requeue.
	Signals bool
}

// State is what is known of a node, of its record and of its jobs.
type State struct {
	Plan
	// Allocation is never changed in place, and large: Step copies a life.
	*nodesize.Allocation
	// Fault is why the last change of the pod could not be followed, Refusal why slurmctld did not take
	// the traits. RecordDiffers says in what an elastic node's record differs from the pod.
	Fault, Refusal, RecordDiffers string
	// settled is the traits that were brought to the record's notice.
	settled nodesize.Traits
	// pace is how often the record has been changed.
	pace pace
	// Unclaimed: slurmctld may count jobs on the node of which nothing runs here, as
	// it did when slurmd registered first or after its death, or because slurmctld was started anew.
	unclaimed bool
	// reconciles counts how often such jobs were found. lookedEarly: an elastic node has been looked at once.
	reconciles  int
	lookedEarly bool
	// Relaunched: slurmd has refused to launch a job that it runs already, which has not been mended yet.
	Relaunched bool
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
	// Seen: slurmctld has seen Main register, which comes after its READY.
	Seen bool
	// awaited: slurmctld has waited for Main to come up. wasUp: an elastic node's record was that of one
	// that is up, with Main or without.
	awaited, wasUp bool
	// tookOver: Main is the successor of a slurmd that had registered the same size.
	tookOver bool
	// deleted: slurmctld has deleted the record on the way down, and has not yet said that there
	// is none.
	deleted bool
	// keepsIt: slurmctld has refused to delete the record of a node that may have been idle, so jobs
	// hold it. doubted is the answer before, nil for none.
	keepsIt bool
	doubted *Answered
	// HasSackd: scontrol has its credentials from a sackd of the agent's. noSackd: none could be started.
	HasSackd, noSackd bool
	// revived: slurmd was restarted because slurmctld had no answer of it.
	revived bool
	// hung: slurmd was killed because it hung when it was to stop, and nothing could be lost.
	hung bool
	// stepEnded: a step has ended while the record was being looked at; looks counts how often jobs
	// held it still.
	stepEnded bool
	looks     int
	// running is how many steps are waited for, 0 while the record is being looked at.
	running int
	// Acted is the last stage of the way down that was followed; refusals counts how often slurmctld
	// kept the record.
	Acted    deadlines.Stage
	refusals int
	// Jobs are those of the node when slurmctld was asked last. Unanswered: slurmctld did not answer
	// the last question of the way down.
	Jobs       []slurm.Job
	Unanswered bool
}

// Supervisor is the state of slurmd.
type Supervisor = supervisor.State

// machine is the node's state with that of its slurmd.
type machine struct {
	Supervisor
	State
}

// registered: the record may be taken for that of the present slurmd. A successor registers
// within milliseconds with what its predecessor registered.
func (n State) registered() bool { return n.Seen || n.tookOver }

// InService says whether slurmctld may count on this node: only then is there
// something to take back before slurmd ends. What it is doing says nothing about
// that: jobs live on while slurmd is dead, restarted or unreachable.
func (n State) InService() bool { return n.listed || n.Inherits }

// MayStartSackd says whether a sackd can still take slurmd's place.
func (n State) MayStartSackd() bool { return !n.HasSackd && !n.noSackd }

// pace keeps a node from changing the same thing again and again, as where slurmctld refuses each
// registration, or where somebody undoes each change. The first change of a kind is immediate,
// the next ones lie apart, up to a minute. The counts begin anew when the node is Ready, when the
// pod gets another size, with SIGTERM, and with each deadline of the way down.
type pace struct {
	// made counts the changes by verb.
	made [verbCount]int
	// last is the verb of the last one.
	last Verb
	// resting is the timer of the pause before the next change. rested: that pause is over.
	resting int
	rested  bool
}
