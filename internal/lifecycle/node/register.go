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
func (m machine) answer(e Answered) (machine, []any) {
	if e.Number != m.Question {
		return m, nil
	}
	m = m.note(e)
	if m.Phase == supervisor.Starting && !m.unclaimed && e.Node != nil && e.Node.Busy() && (e.Steps == 0 || m.WasReady || m.Inherits) {
		m = m.doubtClaims()
	}
	switch {
	case e.Err != nil:
		return m.again(e.Err.Error())
	case m.Activity == supervisor.Reaching:
		m.Reason = ""
		return m.launch()
	case m.mayHaveStaleJobs(e.Steps) && m.Seen && e.Node != nil && e.Node.Busy():
		return m.lookForStaleJobs()
	case m.Activity == supervisor.Leaving:
		return m.leave(e.Node)
	}
	return m.confirmRecord(e.Node)
}

// note keeps what slurmctld's answer says in every phase.
func (m machine) note(e Answered) machine {
	if e.Main != 0 && e.Main == m.Main && e.Began.Before(m.MainSince) {
		m.MainSince = e.Began // the clock was stepped back
	}
	m.Seen = m.Seen || m.isSeen(e.Node)
	return m.noteElastic(e.Node)
}

// changed takes the outcome of a deletion, a drain or its end.
func (m machine) changed(e Done) (machine, []any) {
	switch {
	case e.Number != m.Question:
		return m, nil
	case m.Activity == supervisor.Describing:
		return m.described(e.Err)
	case m.Activity == supervisor.EndingStaleJobs:
		return m.staleJobsEnded(e.Err)
	case m.Activity == supervisor.Deleting && errors.Is(e.Err, slurm.ErrNoNode):
		return m.unlisted().replace("the old record is gone")
	case m.Activity == supervisor.Deleting && errors.Is(e.Err, slurm.ErrKept):
		return m.replace("the record was made anew with the pod's size")
	case m.Activity == supervisor.Deleting && e.Err != nil:
		m.Activity = supervisor.Leaving // a job or a reservation was quicker
		return m.changeAgain(e.Err.Error())
	case m.Activity == supervisor.Draining:
		m.Activity = supervisor.Leaving
		if e.Err != nil {
			m.Reason = e.Err.Error()
		}
		return m.changeAgain(m.Reason)
	case e.Err != nil:
		return m.changeAgain(e.Err.Error())
	case m.Activity == supervisor.Deleting:
		return m.unlisted().replace("the old record is deleted")
	case m.Activity == supervisor.Mending:
		return m.mended()
	case m.Activity == supervisor.Resuming && m.pace.repeats():
		m.Activity = supervisor.Confirming
		return m.changeAgain("the node was resumed, and may be drained again")
	case m.Activity == supervisor.Resuming:
		m.Activity = supervisor.Confirming
		return m.ask()
	}
	return m.changeAgain(m.Reason)
}

// confirmRecord compares the record with what slurmd has registered. slurmd cannot:
// it reports success even when it was refused, and an older record silently
// wins over --conf.
func (m machine) confirmRecord(n *slurm.Node) (machine, []any) {
	switch {
	case m.Elastic:
		return m.confirmElastic(n)
	case n == nil:
		return m.lost()
	case !m.fits(n):
		m.Tries = 0
		return m.leave(n)
	case m.mustMend(n):
		return m.mend()
	case m.registered() && (Own(n) || PutRight(n)):
		// also from DOWN, which an earlier agent may have set with its drain
		return m.attempt(supervisor.Resuming, Change{Verb: ResumeNode})
	case !m.registered() || !n.Responding():
		return m.again("slurmctld has not seen this slurmd yet: the record is " + strings.Join(n.State, "+"))
	}
	return m.describe(n)
}

// mayHaveStaleJobs: slurmctld may count jobs here that have died with an earlier container, or with an earlier pod.
// slurmctld waits for minutes for those of a pod, because it takes them for young after its own start.
func (m machine) mayHaveStaleJobs(steps int) bool { return m.Inherits || m.Fresh && steps == 0 }

// lookForStaleJobs looks for jobs that have died with an earlier container, once.
func (m machine) lookForStaleJobs() (machine, []any) {
	return m.begins(supervisor.EndingStaleJobs, Change{Verb: EndStaleJobs})
}

// staleJobsEnded: slurmctld knows of them, or will find out by itself. What it refuses
// does not keep the node from its work.
func (m machine) staleJobsEnded(err error) (machine, []any) {
	if errors.Is(err, slurm.ErrUnreachable) {
		return m.again(err.Error())
	}
	m.Inherits, m.Fresh = false, false
	if m.Phase == supervisor.Stopping {
		return m.lookAtRecord()
	}
	m.Activity = supervisor.Confirming
	return m.ask()
}

// isSeen: the record is that of the present slurmd, and not of an earlier one.
func (m machine) isSeen(n *slurm.Node) bool {
	return n != nil && !n.SlurmdStartAt.Time().Before(m.MainSince.Truncate(time.Second))
}

func (m machine) fits(n *slurm.Node) bool { return m.Size.Diff(n) == "" && !n.Invalid() }

// lost: slurmctld has no record. SIGHUP makes slurmd register again.
func (m machine) lost() (machine, []any) {
	if m.Tries+1 < LostTries {
		return m.again("slurmctld has no record of this node yet")
	}
	m, actions := m.again("slurmctld has no record of this node: is MaxNodeCount reached?")
	return m, append(actions, supervisor.SignalMain{Signal: supervisor.SigHup})
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
