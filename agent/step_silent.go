package agent

import (
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// With auth/slurm it is slurmd that gives scontrol its credentials (sackd(8)). A node
// that is to be taken out of service while its slurmd is dead, hangs, or is being
// restarted, needs another slurmd first. Its steps live on meanwhile, and the
// deadlines run. Where slurmd does not come up, or cannot even be killed because it
// waits for a file system that does not answer, a sackd takes its place.

// isSilent: nobody is there that would let slurmctld be asked.
func (l life) isSilent() bool {
	return !l.voiced && (l.main == 0 || l.doing == launching || l.doing == replacing || l.doing == speaking)
}

// mostRestart bounds restartLimit. A slurmd that could not get its configuration tries
// again after 10 s.
const mostRestart = 15 * time.Second

// restartLimit is how long slurmd may take for what it does within a second, before it is
// killed on the way down: twice of it leaves some of the time that jobs have.
func (l life) restartLimit() time.Duration {
	return min(l.way.Requeue/3, mostRestart) << min(l.failures, 4)
}

// silentLimit is how long slurmd may be silent before it is killed. It is as long as
// when it is restarted: with a reconfigure it waits for prologs and epilogs too.
func (w wayDown) silentLimit() time.Duration { return min(w.Requeue/3, replaceTime) }

// replaceHung kills a slurmd that hangs; its end starts the next one.
func (l life) replaceHung(e mainSilent) (life, []action) {
	if !l.registers || e.pid != l.main || l.main == 0 || l.killed || l.doing == ending || l.state == Exited {
		return l, nil
	}
	l.doing, l.reason, l.killed = replacing, "slurmd hangs: it does not answer on its socket, though slurmctld can be reached", true
	l.question++ // what was asked gets no answer
	l, actions := l.wait(l.restartLimit())
	return l, append(actions, signalMain{sigKill})
}

// replaceSoon restarts slurmd on the way down.
func (l life) replaceSoon(reason string) (life, []action) {
	l.doing, l.reason = replacing, reason
	l, actions := l.wait(l.restartLimit())
	return l, append(actions, signalMain{sigTerm})
}

// overdueReplaced: slurmd has not stopped in time to be replaced.
func (l life) overdueReplaced() (life, []action) {
	switch {
	case l.main == 0:
		return l, nil
	case l.killed && l.state == Stopping:
		return l.speak("slurmd hangs and cannot be killed")
	case l.killed:
		l.reason = "slurmd hangs and cannot be killed: does a file system that it uses not answer?"
		return l, nil
	}
	l.killed = true
	if l.state != Stopping {
		return l, []action{signalMain{sigKill}}
	}
	l, actions := l.wait(l.restartLimit())
	return l, append(actions, signalMain{sigKill})
}

// relaunch starts slurmd anew, as soon as slurmctld can be reached: one that cannot
// get its configuration tries again only every 10 s.
func (l life) relaunch() (life, []action) {
	l.doing, l.tries = reaching, 0
	l.timer++
	return l.reach()
}

func (l life) reach() (life, []action) {
	l.question++
	return l, []action{reach{l.question}}
}

const (
	// mutedFailures is how often in a row slurmd may fail to start before a sackd speaks.
	mutedFailures = 3
	// mostFailures, most of a minute, is how often before a node without a step leaves.
	mostFailures = 10
)

// reached: slurmctld's port takes connections, or does not.
func (l life) reached(e answered) (life, []action) {
	switch {
	case e.err != nil:
		return l.unanswered(e)
	case l.failures >= mutedFailures && l.maySpeak():
		return l.speak(l.reason)
	case l.failures > mostFailures && e.steps == 0 && !l.voiced:
		return l.end("no step runs here, and slurmd does not start; the node record may still be there: " + l.reason)
	}
	l.doing, l.starting = launching, true
	l.starts++
	l, actions := l.wait(l.restartLimit())
	return l, append([]action{startMain{}}, actions...)
}

// stillSilent: slurmd is not READY yet. Where slurmctld can be reached, a new one comes
// up sooner than this.
func (l life) stillSilent(e answered) (life, []action) {
	switch {
	case e.err != nil && e.steps == 0 && l.tries >= lonelyTries:
		return l.end("no step runs here, and slurmctld does not answer; the node record may still be there: " + e.err.Error())
	case e.err != nil, l.main == 0:
		l.tries += int(mostRestart / lastTry)
		return l.wait(l.restartLimit())
	case l.killed && l.maySpeak():
		return l.speak("slurmd hangs and cannot be killed")
	}
	l.killed, l.reason = true, "slurmd hangs: it is not READY, though slurmctld can be reached"
	l, actions := l.wait(l.restartLimit())
	return l, append(actions, signalMain{sigKill})
}

func (l life) maySpeak() bool { return !l.voiced && !l.voiceless }

// speak has a sackd take slurmd's place for scontrol.
func (l life) speak(reason string) (life, []action) {
	if !l.maySpeak() {
		return l.wait(mostRestart) // its end, or a deadline, comes
	}
	l.doing, l.reason = speaking, reason
	l.timer++
	l.question++
	return l, []action{speak{l.question}}
}

func (l life) spoken(e carriedOut) (life, []action) {
	if e.err == nil {
		l.voiced = true
		return l.lookAtRecord()
	}
	l.voiceless, l.reason = true, l.reason+"; "+e.err.Error()
	if l.main == 0 {
		return l.relaunch()
	}
	l.doing = replacing
	return l.wait(mostRestart)
}

// onlyCompleting: nothing of a job runs any more, and there is no slurmd to clean up after it:
// it would be COMPLETING for ever. Setting the node DOWN ends that, and changes nothing
// about how the job has ended.
func (l life) onlyCompleting(e answered) bool {
	return l.voiced && (l.main == 0 || l.killed) && e.steps == 0 && e.counted &&
		!slices.ContainsFunc(e.jobs, func(j slurm.Job) bool { return j.Running() })
}
