package node

import (
	"slices"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// With auth/slurm it is slurmd that gives scontrol its credentials (sackd(8)). A node
// that is to be taken out of service while its slurmd is dead, hangs, or is being
// restarted, needs another slurmd first. Its steps live on meanwhile, and the
// deadlines run. Where slurmd does not come up, or cannot even be killed because it
// waits for a file system that does not answer, a sackd takes its place.

// cannotAsk: nobody is there that would let slurmctld be asked.
func (l machine) cannotAsk() bool {
	return !l.HasSackd &&
		(l.Main == 0 || l.Activity == supervisor.Launching || l.Activity == supervisor.Replacing || l.Activity == supervisor.StartingSackd)
}

// replaceHung kills a slurmd that hangs; its end starts the next one, or is the agent's.
func (l machine) replaceHung(e supervisor.MainHung) (machine, []any) {
	switch {
	case e.PID != l.Main, l.Main == 0, l.Killed, l.Phase == supervisor.Exited, l.Activity == supervisor.Ending && !l.losesNothing():
		return l, nil
	case l.Activity == supervisor.Ending:
		l.Killed, l.hung, l.Reason = true, true, "slurmd hangs while it stops, and nothing can be lost"
		l, actions := l.wait(l.stopLimit())
		return l, append(actions, supervisor.SignalMain{Signal: supervisor.SigKill})
	}
	l.Activity, l.Reason, l.Killed = supervisor.Replacing,
		"slurmd hangs: it does not answer on its socket, though slurmctld can be reached", true
	l.Question++ // what was asked gets no answer
	l, actions := l.wait(l.StartLimit())
	return l, append(actions, supervisor.SignalMain{Signal: supervisor.SigKill})
}

// overdueReplaced: slurmd has not stopped in time to be replaced.
func (l machine) overdueReplaced() (machine, []any) {
	switch {
	case l.Main == 0:
		return l, nil
	case l.Killed && l.Phase == supervisor.Stopping:
		return l.replaceBySackd("slurmd hangs and cannot be killed")
	case l.Killed:
		l.Reason = "the daemon hangs and cannot be killed: does a file system that it uses not answer?"
		return l, nil
	}
	l.Killed = true
	if l.Phase != supervisor.Stopping {
		return l, []any{supervisor.SignalMain{Signal: supervisor.SigKill}}
	}
	l, actions := l.wait(l.StartLimit())
	return l, append(actions, supervisor.SignalMain{Signal: supervisor.SigKill})
}

const (
	// sackdFailures is how often in a row slurmd may fail to start before the agent starts a sackd.
	sackdFailures = 3
	// mostFailures, most of a minute, is how often before a node without a step leaves.
	mostFailures = 10
)

// reached: slurmctld's port takes connections, or does not.
func (l machine) reached(e Answered) (machine, []any) {
	switch {
	case e.Err != nil:
		return l.unanswered(e)
	case l.Failures >= sackdFailures && l.MayStartSackd():
		return l.replaceBySackd(l.Reason)
	case l.Failures > mostFailures && e.Steps == 0 && !l.HasSackd:
		return l.end("no step runs here, and slurmd does not start; " + l.mayRemain() + ": " + l.Reason)
	}
	l.Activity, l.StartAsked = supervisor.Launching, true
	l.Starts++
	l, actions := l.wait(l.StartLimit())
	return l, append([]any{supervisor.StartMain{}}, actions...)
}

// notReady: slurmd is not READY yet. Where slurmctld can be reached, a new one comes
// up sooner than this.
func (l machine) notReady(e Answered) (machine, []any) {
	switch {
	case e.Err != nil && e.Steps == 0 && l.Tries >= TriesWithoutSteps:
		return l.end("no step runs here, and slurmctld does not answer; " + l.mayRemain() + ": " + e.Err.Error())
	case e.Err != nil, l.Main == 0:
		l.Tries += int(supervisor.MostRestart / backoff.LastTry)
		return l.wait(l.StartLimit())
	case l.Killed && l.MayStartSackd():
		return l.replaceBySackd("slurmd hangs and cannot be killed")
	}
	l.Killed, l.Reason = true, "slurmd hangs: it is not READY, though slurmctld can be reached"
	l, actions := l.wait(l.StartLimit())
	return l, append(actions, supervisor.SignalMain{Signal: supervisor.SigKill})
}

// replaceBySackd starts a sackd, which takes slurmd's place for scontrol.
func (l machine) replaceBySackd(reason string) (machine, []any) {
	if !l.MayStartSackd() {
		return l.wait(supervisor.MostRestart) // its end, or a deadline, comes
	}
	l.Reason = reason
	return l.begins(supervisor.StartingSackd, Change{Verb: StartSackd})
}

func (l machine) sackdStarted(e Done) (machine, []any) {
	if e.Err == nil {
		l.HasSackd = true
		return l.lookAtRecord()
	}
	l.noSackd, l.Reason = true, l.Reason+"; "+e.Err.Error()
	if l.Main == 0 {
		return l.relaunch()
	}
	l.Activity = supervisor.Replacing
	return l.wait(supervisor.MostRestart)
}

// onlyCompleting: nothing of a job runs any more, and there is no slurmd to clean up after it:
// it would be COMPLETING for ever. Setting the node DOWN ends that, and changes nothing
// about how the job has ended.
func (l machine) onlyCompleting(e Answered) bool {
	return l.HasSackd && (l.Main == 0 || l.Killed) && e.Steps == 0 && e.Counted &&
		!slices.ContainsFunc(e.Jobs, func(j slurm.Job) bool { return j.Running() })
}
