package supervisor

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
)

// Begin starts the daemon as soon as what it needs can be reached: a slurmd that
// cannot get its configuration tries again only every 10 s. More cannot be asked
// before it runs: with auth/slurm it is slurmd, or sackd, that gives scontrol its
// credentials (sackd(8)).
func (s State) Begin() (State, []any) {
	if !s.MayBegin() {
		return s, nil
	}
	if !s.Reaches {
		return s.Launch()
	}
	if s.Unstartable != "" {
		s.Activity, s.Reason = AwaitingDescription, s.Unstartable
		return s, nil
	}
	s.Activity = Reaching
	return s.TryToReach()
}

// MayBegin says whether a start is due: no daemon lives, and none was asked for.
func (s State) MayBegin() bool { return s.Phase == Starting && s.Main == 0 && !s.StartAsked }

// Launch starts the daemon.
func (s State) Launch() (State, []any) {
	s.Phase, s.Activity, s.StartAsked, s.Tries = Starting, Launching, true, 0
	return s, []any{StartMain{}}
}

// Started: a process is the main one.
func (s State) Started(e MainStarted) State {
	s.StartAsked, s.Main, s.MainSince, s.Killed = false, e.PID, e.At, false
	return s
}

// HandedOver: another process has taken the main one's place.
func (s State) HandedOver(e MainChanged) State {
	s.Main, s.MainSince, s.Killed = e.PID, e.At, false
	return s
}

// Serve makes the container Ready.
func (s State) Serve() State {
	s.Phase, s.Activity, s.Reason, s.Tries, s.WasReady = Ready, Idle, "", 0, true
	return s
}

// SendHUP has the daemon read its configuration again. One that has not said READY may not catch
// the signal yet, and reads it anyway.
func (s State) SendHUP() (State, []any) {
	if s.Main == 0 || s.Activity == Launching {
		return s, nil
	}
	return s, []any{SignalMain{SigHup}}
}

// Pause waits before the daemon is started again, longer from failure to
// failure. One that ends while its node is taken out of service is needed too:
// without it slurmctld cannot be spoken to.
func (s State) Pause(reason string) (State, []any) {
	if s.Phase != Stopping {
		s.Phase = Starting
	}
	s.Activity, s.Reason = Pausing, reason
	s.Failures++
	return s.Wait(backoff.Grow(backoff.FirstPause, s.Failures-1, backoff.LastPause))
}

// Relaunch starts the daemon anew on the way down, as soon as slurmctld can be reached: a slurmd that cannot
// get its configuration tries again only every 10 s.
func (s State) Relaunch() (State, []any) {
	s.Activity, s.Tries = Reaching, 0
	s.Timer++
	return s.TryToReach()
}

// LaunchStopping starts the daemon on the way down. It has StartLimit for its READY.
func (s State) LaunchStopping() (State, []any) {
	s.Activity, s.StartAsked = Launching, true
	s.Starts++
	s, actions := s.Wait(s.StartLimit())
	return s, append([]any{StartMain{}}, actions...)
}

// MostRestart bounds StartLimit. A slurmd that could not get its configuration tries
// again after 10 s.
const MostRestart = 15 * time.Second

// StartLimit is how long slurmd may take on the way down for what it does within a second, before it is
// killed: twice of it leaves some of the time that jobs have.
func (s State) StartLimit() time.Duration {
	return min(s.Deadlines.Requeue/3, MostRestart) << min(s.Failures, 4)
}
