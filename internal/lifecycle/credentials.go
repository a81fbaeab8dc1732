package lifecycle

import (
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// With auth/slurm it is slurmd that gives scontrol its credentials (sackd(8)). A node
// that is to be taken out of service while its slurmd is dead, hangs, or is being
// restarted, needs another slurmd first. Its steps live on meanwhile, and the
// deadlines run. Where slurmd does not come up, or cannot even be killed because it
// waits for a file system that does not answer, a sackd takes its place.

// cannotAsk: nobody is there that would let slurmctld be asked.
func (l State) cannotAsk() bool {
	return !l.hasSackd && (l.Main == 0 || l.Activity == Launching || l.Activity == Replacing || l.Activity == StartingSackd)
}

// mostRestart bounds slurmdLimit. A slurmd that could not get its configuration tries
// again after 10 s.
const mostRestart = 15 * time.Second

// slurmdLimit is how long slurmd may take for what it does within a second, before it is
// killed on the way down: twice of it leaves some of the time that jobs have.
func (l State) slurmdLimit() time.Duration {
	return min(l.Deadlines.Requeue/3, mostRestart) << min(l.failures, 4)
}

// HangLimit is how long slurmd may hang before it is killed. It is as long as
// when it is restarted: with a reconfigure it waits for prologs and epilogs too.
func (w Deadlines) HangLimit() time.Duration { return min(w.Requeue/3, replaceTime) }

// replaceHung kills a slurmd that hangs; its end starts the next one, or is the agent's.
func (l State) replaceHung(e MainHung) (State, []Action) {
	switch {
	case !l.Registers, e.PID != l.Main, l.Main == 0, l.killed, l.Phase == Exited, l.Activity == Ending && !l.losesNothing():
		return l, nil
	case l.Activity == Ending:
		l.killed, l.hung, l.Reason = true, true, "slurmd hangs while it stops, and nothing can be lost"
		l, actions := l.wait(l.stopLimit())
		return l, append(actions, SignalMain{SigKill})
	}
	l.Activity, l.Reason, l.killed = Replacing, "slurmd hangs: it does not answer on its socket, though slurmctld can be reached", true
	l.question++ // what was asked gets no answer
	l, actions := l.wait(l.slurmdLimit())
	return l, append(actions, SignalMain{SigKill})
}

// replaceSoon restarts slurmd on the way down.
func (l State) replaceSoon(reason string) (State, []Action) {
	l.Activity, l.Reason = Replacing, reason
	l.question++
	l, actions := l.wait(l.slurmdLimit())
	return l, append(actions, SignalMain{SigTerm})
}

// overdueReplaced: slurmd has not stopped in time to be replaced.
func (l State) overdueReplaced() (State, []Action) {
	switch {
	case l.Main == 0:
		return l, nil
	case l.killed && l.Phase == Stopping:
		return l.replaceBySackd("slurmd hangs and cannot be killed")
	case l.killed:
		l.Reason = "the daemon hangs and cannot be killed: does a file system that it uses not answer?"
		return l, nil
	}
	l.killed = true
	if l.Phase != Stopping {
		return l, []Action{SignalMain{SigKill}}
	}
	l, actions := l.wait(l.slurmdLimit())
	return l, append(actions, SignalMain{SigKill})
}

// relaunch starts slurmd anew, as soon as slurmctld can be reached: one that cannot
// get its configuration tries again only every 10 s.
func (l State) relaunch() (State, []Action) {
	l.Activity, l.Tries = Reaching, 0
	l.timer++
	return l.tryToReach()
}

// reachAnew tries at once what was tried at an address that slurmctld has no more, or waits for the next try.
func (l State) reachAnew() (State, []Action) {
	if l.Activity != Reaching {
		return l, nil
	}
	return l.relaunch()
}

func (l State) tryToReach() (State, []Action) {
	l.question++
	return l, []Action{Reach{l.question}}
}

const (
	// sackdFailures is how often in a row slurmd may fail to start before the agent starts a sackd.
	sackdFailures = 3
	// mostFailures, most of a minute, is how often before a node without a step leaves.
	mostFailures = 10
)

// reached: slurmctld's port takes connections, or does not.
func (l State) reached(e Answered) (State, []Action) {
	switch {
	case e.Err != nil:
		return l.unanswered(e)
	case l.failures >= sackdFailures && l.mayStartSackd():
		return l.replaceBySackd(l.Reason)
	case l.failures > mostFailures && e.Steps == 0 && !l.hasSackd:
		return l.end("no step runs here, and slurmd does not start; " + l.mayRemain() + ": " + l.Reason)
	}
	l.Activity, l.starting = Launching, true
	l.Starts++
	l, actions := l.wait(l.slurmdLimit())
	return l, append([]Action{StartMain{}}, actions...)
}

// notReady: slurmd is not READY yet. Where slurmctld can be reached, a new one comes
// up sooner than this.
func (l State) notReady(e Answered) (State, []Action) {
	switch {
	case e.Err != nil && e.Steps == 0 && l.Tries >= lonelyTries:
		return l.end("no step runs here, and slurmctld does not answer; " + l.mayRemain() + ": " + e.Err.Error())
	case e.Err != nil, l.Main == 0:
		l.Tries += int(mostRestart / backoff.LastTry)
		return l.wait(l.slurmdLimit())
	case l.killed && l.mayStartSackd():
		return l.replaceBySackd("slurmd hangs and cannot be killed")
	}
	l.killed, l.Reason = true, "slurmd hangs: it is not READY, though slurmctld can be reached"
	l, actions := l.wait(l.slurmdLimit())
	return l, append(actions, SignalMain{SigKill})
}

func (l State) mayStartSackd() bool { return !l.hasSackd && !l.noSackd }

// replaceBySackd starts a sackd, which takes slurmd's place for scontrol.
func (l State) replaceBySackd(reason string) (State, []Action) {
	if !l.mayStartSackd() {
		return l.wait(mostRestart) // its end, or a deadline, comes
	}
	l.Reason = reason
	return l.begins(StartingSackd, Change{Verb: StartSackd})
}

func (l State) sackdStarted(e Done) (State, []Action) {
	if e.Err == nil {
		l.hasSackd = true
		return l.lookAtRecord()
	}
	l.noSackd, l.Reason = true, l.Reason+"; "+e.Err.Error()
	if l.Main == 0 {
		return l.relaunch()
	}
	l.Activity = Replacing
	return l.wait(mostRestart)
}

// onlyCompleting: nothing of a job runs any more, and there is no slurmd to clean up after it:
// it would be COMPLETING for ever. Setting the node DOWN ends that, and changes nothing
// about how the job has ended.
func (l State) onlyCompleting(e Answered) bool {
	return l.hasSackd && (l.Main == 0 || l.killed) && e.Steps == 0 && e.Counted &&
		!slices.ContainsFunc(e.Jobs, func(j slurm.Job) bool { return j.Running() })
}
