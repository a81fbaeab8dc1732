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
func (m machine) cannotAsk() bool {
	return !m.HasSackd &&
		(m.Main == 0 || m.Activity == supervisor.Launching || m.Activity == supervisor.Replacing || m.Activity == supervisor.StartingSackd)
}

// replaceHung kills a slurmd that hangs; its end starts the next one, or is the agent's.
func (m machine) replaceHung(e supervisor.MainHung) (machine, []any) {
	switch {
	case e.PID != m.Main, m.Main == 0, m.Killed, m.Phase == supervisor.Exited, m.Activity == supervisor.Ending && !m.losesNothing():
		return m, nil
	case m.Activity == supervisor.Ending:
		m.Killed, m.hung, m.Reason = true, true, "slurmd hangs while it stops, and nothing can be lost"
		m, actions := m.wait(m.stopLimit())
		return m, append(actions, supervisor.SignalMain{Signal: supervisor.SigKill})
	}
	m.Activity, m.Reason, m.Killed = supervisor.Replacing,
		"slurmd hangs: it does not answer on its socket, though slurmctld can be reached", true
	m.Question++ // what was asked gets no answer
	m, actions := m.wait(m.StartLimit())
	return m, append(actions, supervisor.SignalMain{Signal: supervisor.SigKill})
}

// overdueReplaced: slurmd has not stopped in time to be replaced.
func (m machine) overdueReplaced() (machine, []any) {
	switch {
	case m.Main == 0:
		return m, nil
	case m.Killed && m.Phase == supervisor.Stopping:
		return m.replaceBySackd("slurmd hangs and cannot be killed")
	case m.Killed:
		m.Reason = "the daemon hangs and cannot be killed: does a file system that it uses not answer?"
		return m, nil
	}
	m.Killed = true
	if m.Phase != supervisor.Stopping {
		return m, []any{supervisor.SignalMain{Signal: supervisor.SigKill}}
	}
	m, actions := m.wait(m.StartLimit())
	return m, append(actions, supervisor.SignalMain{Signal: supervisor.SigKill})
}

const (
	// sackdFailures is how often in a row slurmd may fail to start before the agent starts a sackd.
	sackdFailures = 3
	// mostFailures, most of a minute, is how often before a node without a step leaves.
	mostFailures = 10
)

// reached: slurmctld's port takes connections, or does not.
func (m machine) reached(e Answered) (machine, []any) {
	switch {
	case e.Err != nil:
		return m.unanswered(e)
	case m.Failures >= sackdFailures && m.MayStartSackd():
		return m.replaceBySackd(m.Reason)
	case m.Failures > mostFailures && e.Steps == 0 && !m.HasSackd:
		return m.end("no step runs here, and slurmd does not start; " + m.mayRemain() + ": " + m.Reason)
	}
	m.Activity, m.StartAsked = supervisor.Launching, true
	m.Starts++
	m, actions := m.wait(m.StartLimit())
	return m, append([]any{supervisor.StartMain{}}, actions...)
}

// notReady: slurmd is not READY yet. Where slurmctld can be reached, a new one comes
// up sooner than this.
func (m machine) notReady(e Answered) (machine, []any) {
	switch {
	case e.Err != nil && e.Steps == 0 && m.Tries >= TriesWithoutSteps:
		return m.end("no step runs here, and slurmctld does not answer; " + m.mayRemain() + ": " + e.Err.Error())
	case e.Err != nil, m.Main == 0:
		m.Tries += int(supervisor.MostRestart / backoff.LastTry)
		return m.wait(m.StartLimit())
	case m.Killed && m.MayStartSackd():
		return m.replaceBySackd("slurmd hangs and cannot be killed")
	}
	m.Killed, m.Reason = true, "slurmd hangs: it is not READY, though slurmctld can be reached"
	m, actions := m.wait(m.StartLimit())
	return m, append(actions, supervisor.SignalMain{Signal: supervisor.SigKill})
}

// replaceBySackd starts a sackd, which takes slurmd's place for scontrol.
func (m machine) replaceBySackd(reason string) (machine, []any) {
	if !m.MayStartSackd() {
		return m.wait(supervisor.MostRestart) // its end, or a deadline, comes
	}
	m.Reason = reason
	return m.begins(supervisor.StartingSackd, Change{Verb: StartSackd})
}

func (m machine) sackdStarted(e Done) (machine, []any) {
	if e.Err == nil {
		m.HasSackd = true
		return m.lookAtRecord()
	}
	m.noSackd, m.Reason = true, m.Reason+"; "+e.Err.Error()
	if m.Main == 0 {
		return m.relaunch()
	}
	m.Activity = supervisor.Replacing
	return m.wait(supervisor.MostRestart)
}

// onlyCompleting: nothing of a job runs any more, and there is no slurmd to clean up after it:
// it would be COMPLETING for ever. Setting the node DOWN ends that, and changes nothing
// about how the job has ended.
func (m machine) onlyCompleting(e Answered) bool {
	return m.HasSackd && (m.Main == 0 || m.Killed) && e.Steps == 0 && e.Counted &&
		!slices.ContainsFunc(e.Jobs, func(j slurm.Job) bool { return j.Running() })
}
