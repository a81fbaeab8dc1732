package lifecycle

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// A slurmctld that dies while it serves is started again in its container. The kubelet would wait longer from crash to
// crash, and all nodes with it.

const (
	// mostCrashes is how many crashes in a row a container survives. The next one ends it, so that Kubernetes sees
	// what goes on.
	mostCrashes = 5
	// steadyServing is how long slurmctld must have lived for its crash to count as a first one. The kubelet's
	// back-off is reset after as long.
	steadyServing = 10 * time.Minute
)

// mayRevive: slurmctld has crashed, with a configuration that it and its nodes have taken. What it says before it serves
// is a fault of the configuration or of its state, and ends the container.
func (s State) mayRevive(e supervisor.MainExited) bool {
	served := s.Phase.Serving() || e.Code > supervisor.BySignal
	return s.Reloads && s.WasReady && !s.IsOver() && s.Activity != supervisor.Replacing && s.Conf.IsSettled() && served && e.Code != 0 &&
		(s.crashes < mostCrashes || e.Uptime >= steadyServing)
}

// revive starts slurmctld again, the first time at once.
func (s State) revive(e supervisor.MainExited) (State, []Action) {
	if e.Uptime >= steadyServing {
		s.crashes = 0
	}
	s.crashes++
	s.Phase, s.Reason = supervisor.Starting, e.What
	if s.crashes == 1 {
		s.Starts++
		return s.startConfigured()
	}
	s.Activity = supervisor.Pausing
	return s.with(s.Wait(backoff.Grow(backoff.FirstPause, s.crashes-2, backoff.LastPause)))
}

// waitForState says why slurmctld does not start yet: another slurmctld's agent has what slurmctld has saved.
func (s State) waitForState(e StateHeld) (State, []Action) {
	if s.Activity == supervisor.ChoosingConf {
		s.Reason = e.Why
	}
	return s, nil
}
