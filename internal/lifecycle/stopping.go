package lifecycle

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/sessions"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// answeredStopping: on the way down only a daemon that is started anew, or may convert a database, is asked for.
func (l State) answeredStopping(e node.Answered) (State, []Action) {
	switch l.Activity {
	case supervisor.Reaching:
		return l.reached(e)
	case supervisor.Launching:
		return l.notReady(e)
	case supervisor.Converting:
		return l.answerConverting(e)
	}
	return l, nil
}

// firedStopping: what was waited for on the way down has not come in time.
func (l State) firedStopping() (State, []Action) {
	switch l.Activity {
	case supervisor.Ending:
		return l.with(l.Overdue())
	case supervisor.Converting:
		return l.askConverting()
	case supervisor.Pausing:
		return l.with(l.Relaunch())
	case supervisor.Replacing:
		return l.with(l.OverdueReplaced())
	case supervisor.Launching, supervisor.Reaching:
		return l.with(l.TryToReach())
	}
	return l, nil
}

// reached: what the daemon of a login pod needs takes connections, or does not.
func (l State) reached(e node.Answered) (State, []Action) {
	if e.Err != nil {
		return l.again(e.Err.Error())
	}
	return l.with(l.LaunchStopping())
}

// notReady: the daemon of a login pod is not READY yet.
func (l State) notReady(e node.Answered) (State, []Action) {
	if e.Err != nil || l.Main == 0 {
		return l.with(l.Wait(l.StartLimit()))
	}
	l.Killed, l.Reason = true, "the daemon hangs: it is not READY, though slurmctld can be reached"
	l, actions := l.with(l.Wait(l.StartLimit()))
	return l, append(actions, supervisor.SignalMain{Signal: supervisor.SigKill})
}

// end stops the daemon. left is what could not be done before, empty for nothing.
func (l State) end(left string) (State, []Action) { return l.with(l.End(left, l.stopLimit())) }

// stopLimit is how long the daemon gets from SIGTERM to SIGKILL.
func (l State) stopLimit() time.Duration {
	switch {
	case l.Hosts:
		return sessions.StopLimit(l.Supervisor)
	case l.Converts:
		return min(l.Deadlines.End, servedStop)
	}
	return l.Deadlines.End
}

// endDue kills a daemon that was asked to end and has less time since.
func (l State) endDue() (State, []Action) {
	switch {
	case l.Phase != supervisor.Stopping:
		return l, nil
	case l.Activity == supervisor.Converting:
		return l.killConverting()
	case l.Activity != supervisor.Ending || l.Killed:
		return l, nil
	}
	return l.with(l.Overdue())
}
