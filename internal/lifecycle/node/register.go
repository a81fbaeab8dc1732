package node

import (
	"errors"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// answer takes slurmctld's word on what was asked last.
func (l machine) answer(e Answered) (machine, []any) {
	if e.Number != l.Question {
		return l, nil
	}
	l = l.note(e)
	if l.Phase == supervisor.Starting && !l.unclaimed && e.Node != nil && e.Node.Busy() && (e.Steps == 0 || l.WasReady || l.Inherits) {
		l = l.doubtClaims()
	}
	switch {
	case e.Err != nil:
		return l.again(e.Err.Error())
	case l.Activity == supervisor.Reaching:
		l.Reason = ""
		return l.launch()
	case l.mayHaveStaleJobs(e.Steps) && l.Seen && e.Node != nil && e.Node.Busy():
		return l.lookForStaleJobs()
	case l.Activity == supervisor.Leaving:
		return l.leave(e.Node)
	}
	return l.confirmRecord(e.Node)
}

// note keeps what slurmctld's answer says in every phase.
func (l machine) note(e Answered) machine {
	if e.Main != 0 && e.Main == l.Main && e.Began.Before(l.MainSince) {
		l.MainSince = e.Began // the clock was stepped back
	}
	l.Seen = l.Seen || l.isSeen(e.Node)
	return l.noteElastic(e.Node)
}

// changed takes the outcome of a deletion, a drain or its end.
func (l machine) changed(e Done) (machine, []any) {
	switch {
	case e.Number != l.Question:
		return l, nil
	case l.Activity == supervisor.Describing:
		return l.described(e.Err)
	case l.Activity == supervisor.EndingStaleJobs:
		return l.staleJobsEnded(e.Err)
	case l.Activity == supervisor.Deleting && errors.Is(e.Err, slurm.ErrNoNode):
		return l.unlisted().replace("the old record is gone")
	case l.Activity == supervisor.Deleting && errors.Is(e.Err, slurm.ErrKept):
		return l.replace("the record was made anew with the pod's size")
	case l.Activity == supervisor.Deleting && e.Err != nil:
		l.Activity = supervisor.Leaving // a job or a reservation was quicker
		return l.changeAgain(e.Err.Error())
	case l.Activity == supervisor.Draining:
		l.Activity = supervisor.Leaving
		if e.Err != nil {
			l.Reason = e.Err.Error()
		}
		return l.changeAgain(l.Reason)
	case e.Err != nil:
		return l.changeAgain(e.Err.Error())
	case l.Activity == supervisor.Deleting:
		return l.unlisted().replace("the old record is deleted")
	case l.Activity == supervisor.Mending:
		return l.mended()
	case l.Activity == supervisor.Resuming && l.pace.repeats():
		l.Activity = supervisor.Confirming
		return l.changeAgain("the node was resumed, and may be drained again")
	case l.Activity == supervisor.Resuming:
		l.Activity = supervisor.Confirming
		return l.ask()
	}
	return l.changeAgain(l.Reason)
}

// confirmRecord compares the record with what slurmd has registered. slurmd cannot:
// it reports success even when it was refused, and an older record silently
// wins over --conf.
func (l machine) confirmRecord(n *slurm.Node) (machine, []any) {
	switch {
	case l.Elastic:
		return l.confirmElastic(n)
	case n == nil:
		return l.lost()
	case !l.fits(n):
		l.Tries = 0
		return l.leave(n)
	case l.mustMend(n):
		return l.mend()
	case l.registered() && (Own(n) || PutRight(n)):
		// also from DOWN, which an earlier agent may have set with its drain
		return l.attempt(supervisor.Resuming, Change{Verb: ResumeNode})
	case !l.registered() || !n.Responding():
		return l.again("slurmctld has not seen this slurmd yet: the record is " + strings.Join(n.State, "+"))
	}
	return l.describe(n)
}

// mayHaveStaleJobs: slurmctld may count jobs here that have died with an earlier container, or with an earlier pod.
// slurmctld waits for minutes for those of a pod, because it takes them for young after its own start.
func (l machine) mayHaveStaleJobs(steps int) bool { return l.Inherits || l.Fresh && steps == 0 }

// lookForStaleJobs looks for jobs that have died with an earlier container, once.
func (l machine) lookForStaleJobs() (machine, []any) {
	return l.begins(supervisor.EndingStaleJobs, Change{Verb: EndStaleJobs})
}

// staleJobsEnded: slurmctld knows of them, or will find out by itself. What it refuses
// does not keep the node from its work.
func (l machine) staleJobsEnded(err error) (machine, []any) {
	if errors.Is(err, slurm.ErrUnreachable) {
		return l.again(err.Error())
	}
	l.Inherits, l.Fresh = false, false
	if l.Phase == supervisor.Stopping {
		return l.lookAtRecord()
	}
	l.Activity = supervisor.Confirming
	return l.ask()
}

// isSeen: the record is that of the present slurmd, and not of an earlier one.
func (l machine) isSeen(n *slurm.Node) bool {
	return n != nil && !n.SlurmdStartAt.Time().Before(l.MainSince.Truncate(time.Second))
}

func (l machine) fits(n *slurm.Node) bool { return l.Size.Diff(n) == "" && !n.Invalid() }

// lost: slurmctld has no record. SIGHUP makes slurmd register again.
func (l machine) lost() (machine, []any) {
	if l.Tries+1 < LostTries {
		return l.again("slurmctld has no record of this node yet")
	}
	l, actions := l.again("slurmctld has no record of this node: is MaxNodeCount reached?")
	return l, append(actions, supervisor.SignalMain{Signal: supervisor.SigHup})
}

// Own says whether the drain on a record was set by an agent.
func Own(n *slurm.Node) bool { return n.Drained() && reasons.Of(n.Reason) == reasons.Agent }

// Foreign says whether somebody else has drained the record. slurmctld's own
// drain of a node that registered too small ("Low CPUs"), or with another
// CpuSpecList ("CoreSpec differ"), or that has refused a launch, is nobody's wish.
func Foreign(n *slurm.Node) bool {
	refused := n.Invalid() && reasons.Of(n.Reason) == reasons.Registration
	return n.Drained() && !Own(n) && !refused && !Relaunched(n)
}

// refusedGres says whether slurmctld has refused a node because slurmd found
// fewer devices than it was to register: gres.conf did not say where.
func refusedGres(n *slurm.Node) bool { return n.Invalid() && reasons.IsGres(n.Reason) }

// PutRight says whether such a refusal is over, and its drain has stayed.
func PutRight(n *slurm.Node) bool {
	return n.Drained() && !n.Invalid() && reasons.IsGres(n.Reason)
}
