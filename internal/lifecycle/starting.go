package lifecycle

import (
	"errors"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// whileStarting takes an event of a container that does not serve yet, or not any more.
func (l State) whileStarting(e Event) (State, []Action) {
	if _, begins := e.(Begun); begins {
		return l.begin()
	}
	return l.beforeStopping(e)
}

// begin starts the daemon as soon as what it needs can be reached: a slurmd that
// cannot get its configuration tries again only every 10 s. More cannot be asked
// before it runs: with auth/slurm it is slurmd, or sackd, that gives scontrol its
// credentials (sackd(8)).
func (l State) begin() (State, []Action) {
	if l.Phase != Starting || l.Main != 0 || l.starting {
		return l, nil
	}
	if l.Reloads {
		return l.startConfigured()
	}
	if !l.Reaches {
		return l.launch()
	}
	if l.Unstartable != "" {
		l.Activity, l.Reason = AwaitingDescription, l.Unstartable
		return l, nil
	}
	l.Activity = Reaching
	l.question++
	return l, []Action{Reach{l.question}}
}

func (l State) started(e MainStarted) (State, []Action) {
	l.starting, l.Main, l.MainSince, l.killed, l.seen, l.tookOver = false, e.PID, e.At, false, false, false
	l.awaited, l.wasUp, l.listens, l.unread = false, false, false, nothing
	l.settled = nodesize.Traits{} // of this slurmd's record nothing is known yet
	l.listed = l.listed || l.WasReady
	switch {
	case l.Activity == Ending:
		return l, []Action{SignalMain{SigTerm}}
	case l.Activity == Converting:
		return l.wait(settle)
	case !l.Announces:
		return l.readied() // it will never say so
	}
	return l, nil
}

func (l State) readied() (State, []Action) {
	if l.Activity != Launching || l.Main == 0 {
		return l, nil
	}
	l.Activity, l.Tries, l.listed = Confirming, 0, true
	switch {
	case l.Phase == Stopping && l.Hosts:
		l.Activity = AwaitingSessions
		return l, nil
	case l.Phase == Stopping:
		l.Activity = LookingAtRecord
	}
	return l.wait(settle)
}

// answer takes slurmctld's word on what was asked last.
func (l State) answer(e Answered) (State, []Action) {
	if e.Number != l.question {
		return l, nil
	}
	l = l.note(e)
	if l.Phase == Starting && !l.unclaimed && e.Node != nil && e.Node.Busy() && (e.Steps == 0 || l.WasReady || l.Inherits) {
		l = l.doubtClaims()
	}
	switch {
	case e.Err != nil && l.converting():
		return l.again(l.notListening(e.Err))
	case e.Err != nil:
		return l.again(e.Err.Error())
	case l.Activity == Reaching:
		l.Reason = ""
		return l.launch()
	case !l.Registers: // confirmed, or what was complained of answers
		return l.becomeReady()
	case l.mayHaveStaleJobs(e.Steps) && l.seen && e.Node != nil && e.Node.Busy():
		return l.lookForStaleJobs()
	case l.Activity == Leaving:
		return l.leave(e.Node)
	}
	return l.confirmRecord(e.Node)
}

// note keeps what slurmctld's word tells in every phase.
func (l State) note(e Answered) State {
	if e.Main != 0 && e.Main == l.Main && e.Began.Before(l.MainSince) {
		l.MainSince = e.Began // the clock was stepped back
	}
	l.seen = l.seen || l.sees(e.Node)
	return l.noteElastic(e.Node)
}

// changed takes the outcome of a deletion, a drain or its end.
func (l State) changed(e Done) (State, []Action) {
	switch {
	case e.Number != l.question:
		return l, nil
	case l.Activity == Describing:
		return l.described(e.Err)
	case l.Activity == EndingStaleJobs:
		return l.staleJobsEnded(e.Err)
	case l.Activity == Deleting && errors.Is(e.Err, slurm.ErrNoNode):
		return l.unlisted().replace("the old record is gone")
	case l.Activity == Deleting && errors.Is(e.Err, slurm.ErrKept):
		return l.replace("the record was made anew with the pod's size")
	case l.Activity == Deleting && e.Err != nil:
		l.Activity = Leaving // a job or a reservation was quicker
		return l.changeAgain(e.Err.Error())
	case l.Activity == Draining:
		l.Activity = Leaving
		if e.Err != nil {
			l.Reason = e.Err.Error()
		}
		return l.changeAgain(l.Reason)
	case e.Err != nil:
		return l.changeAgain(e.Err.Error())
	case l.Activity == Deleting:
		return l.unlisted().replace("the old record is deleted")
	case l.Activity == Mending:
		return l.mended()
	case l.Activity == Resuming && l.pace.repeats():
		l.Activity = Confirming
		return l.changeAgain("the node was resumed, and may be drained again")
	case l.Activity == Resuming:
		l.Activity = Confirming
		return l.ask()
	}
	return l.changeAgain(l.Reason)
}

// confirmRecord compares the record with what slurmd has registered. slurmd cannot:
// it is told success even when it was refused, and an older record silently
// wins over --conf.
func (l State) confirmRecord(n *slurm.Node) (State, []Action) {
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
	case l.registered() && (Own(n) || putRight(n)):
		return l.attempt(Resuming, Change{Verb: ResumeNode}) // also from DOWN, which an earlier agent may have set with its drain
	case !l.registered() || !n.Responding():
		return l.again("slurmctld has not seen this slurmd yet: the record is " + strings.Join(n.State, "+"))
	}
	return l.describe(n)
}

// mayHaveStaleJobs: slurmctld may count jobs here that have died with an earlier container, or with an earlier pod.
// slurmctld waits for minutes for those of a pod, because it takes them for young after its own start.
func (l State) mayHaveStaleJobs(steps int) bool { return l.Inherits || l.Fresh && steps == 0 }

// lookForStaleJobs looks for jobs that have died with an earlier container, once.
func (l State) lookForStaleJobs() (State, []Action) {
	return l.begins(EndingStaleJobs, Change{Verb: EndStaleJobs})
}

// staleJobsEnded: slurmctld knows of them, or will find out by itself. What it refuses
// does not keep the node from its work.
func (l State) staleJobsEnded(err error) (State, []Action) {
	if errors.Is(err, slurm.ErrUnreachable) {
		return l.again(err.Error())
	}
	l.Inherits, l.Fresh = false, false
	if l.Phase == Stopping {
		return l.lookAtRecord()
	}
	l.Activity = Confirming
	return l.ask()
}

// registered: the record may be taken for that of the present slurmd. A successor registers
// within milliseconds with what its predecessor registered.
func (l State) registered() bool { return l.seen || l.tookOver }

// sees: the record is that of the present slurmd, and not of an earlier one.
func (l State) sees(n *slurm.Node) bool {
	return n != nil && !n.SlurmdStart.Before(l.MainSince.Truncate(time.Second))
}

func (l State) fits(n *slurm.Node) bool { return l.Size.Diff(n) == "" && !n.Invalid() }

// lost: slurmctld has no record. SIGHUP makes slurmd register again.
func (l State) lost() (State, []Action) {
	if l.Tries+1 < lostTries {
		return l.again("slurmctld has no record of this node yet")
	}
	l, actions := l.again("slurmctld has no record of this node: is MaxNodeCount reached?")
	return l, append(actions, SignalMain{SigHup})
}

// replaceTime is how long slurmd may take to stop when another is to take its
// place. It serves nobody meanwhile, and waits for a prolog, an epilog or a job
// that does not end for up to PrologEpilogTimeout, for ever by default (slurm.conf(5));
// jobs outlive it, and slurmctld says again what it did not answer.
const replaceTime = 30 * time.Second

// replace ends slurmd, whose end starts the next one.
func (l State) replace(reason string) (State, []Action) {
	if l.Main == 0 {
		return l.launch()
	}
	l.Activity, l.Reason = Replacing, reason
	l.question++ // what was asked is about a daemon that ends
	l, actions := l.wait(min(l.Deadlines.End, replaceTime))
	return l, append(actions, SignalMain{SigTerm})
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
// fewer devices than it was to register: gres.conf did not tell it where.
func refusedGres(n *slurm.Node) bool { return n.Invalid() && reasons.IsGres(n.Reason) }

// putRight says whether such a refusal is over, and its drain has stayed.
func putRight(n *slurm.Node) bool {
	return n.Drained() && !n.Invalid() && reasons.IsGres(n.Reason)
}
