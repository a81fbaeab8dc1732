package lifecycle

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/sessions"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// answeredStopping: on the way down only a daemon that is started anew, or may convert a database, is asked for.
func (s State) answeredStopping(e node.Answered) (State, []Action) {
	switch s.Activity {
	case supervisor.Reaching:
		return s.reached(e)
	case supervisor.Launching:
		return s.notReady(e)
	case supervisor.Converting:
		return s.answerConverting(e)
	}
	return s, nil
}

// firedStopping: what was waited for on the way down has not come in time.
func (s State) firedStopping() (State, []Action) {
	switch s.Activity {
	case supervisor.Ending:
		return s.with(s.Overdue())
	case supervisor.Converting:
		return s.askConverting()
	case supervisor.Pausing:
		return s.with(s.Relaunch())
	case supervisor.Replacing:
		return s.with(s.OverdueReplaced())
	case supervisor.Launching, supervisor.Reaching:
		return s.with(s.TryToReach())
	}
	return s, nil
}

// reached: what the daemon of a login pod needs takes connections, or does not.
func (s State) reached(e node.Answered) (State, []Action) {
	if e.Err != nil {
		return s.again(e.Err.Error())
	}
	return s.with(s.LaunchStopping())
}

// notReady: the daemon of a login pod is not READY yet.
func (s State) notReady(e node.Answered) (State, []Action) {
	if e.Err != nil || s.Main == 0 {
		return s.with(s.Wait(s.StartLimit()))
	}
	s.Killed, s.Reason = true, "the daemon hangs: it is not READY, though slurmctld can be reached"
	s, actions := s.with(s.Wait(s.StartLimit()))
	return s, append(actions, supervisor.SignalMain{Signal: supervisor.SigKill})
}

// end stops the daemon. left is what could not be done before, empty for nothing.
func (s State) end(left string) (State, []Action) { return s.with(s.End(left, s.stopLimit())) }

// stopLimit is how long the daemon gets from SIGTERM to SIGKILL.
func (s State) stopLimit() time.Duration {
	switch {
	case s.Hosts:
		return sessions.StopLimit(s.Supervisor)
	case s.Converts:
		return min(s.Deadlines.End, servedStop)
	}
	return s.Deadlines.End
}

// endDue kills a daemon that was asked to end and has less time since.
func (s State) endDue() (State, []Action) {
	switch {
	case s.Phase != supervisor.Stopping:
		return s, nil
	case s.Activity == supervisor.Converting:
		return s.killConverting()
	case s.Activity != supervisor.Ending || s.Killed:
		return s, nil
	}
	return s.with(s.Overdue())
}
