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
func (l State) mayRevive(e supervisor.MainExited) bool {
	served := l.Phase.Serving() || e.Code > supervisor.BySignal
	return l.Reloads && l.WasReady && !l.IsOver() && l.Activity != supervisor.Replacing && l.Conf.IsSettled() && served && e.Code != 0 &&
		(l.crashes < mostCrashes || e.Uptime >= steadyServing)
}

// revive starts slurmctld again, the first time at once.
func (l State) revive(e supervisor.MainExited) (State, []Action) {
	if e.Uptime >= steadyServing {
		l.crashes = 0
	}
	l.crashes++
	l.Phase, l.Reason = supervisor.Starting, e.What
	if l.crashes == 1 {
		l.Starts++
		return l.startConfigured()
	}
	l.Activity = supervisor.Pausing
	return l.with(l.Wait(backoff.Grow(backoff.FirstPause, l.crashes-2, backoff.LastPause)))
}

// heldUp: another slurmctld's agent has what slurmctld has saved.
func (l State) heldUp(e StateHeld) (State, []Action) {
	if l.Activity == supervisor.ChoosingConf {
		l.Reason = e.Why
	}
	return l, nil
}
