package lifecycle

import (
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// configure gives an event to slurmctld's configuration, and follows the orders that come of it.
func (l State) configure(e conf.Event) (State, []Action) {
	if !l.Reloads {
		return l, nil
	}
	var orders []conf.Action
	l.Conf, orders = conf.Step(l.Conf, l.slurmctld(), e)
	var actions []Action
	for _, order := range orders {
		more := []Action{order}
		switch order := order.(type) {
		case conf.Launch:
			if !l.WasReady {
				l.Reason = ""
			}
			l, more = l.with(l.Launch())
		case conf.End:
			l, more = l.with(l.Replace(order.Why))
		case conf.GiveUp:
			l.Reason = order.Why
			l, more = l.with(l.LeaveWith(order.Code))
		}
		actions = append(actions, more...)
	}
	return l, actions
}

// slurmctld is what its configuration sees of it.
func (l State) slurmctld() conf.Daemon {
	return conf.Daemon{PID: l.Main, Since: l.MainSince, Ready: l.Phase == supervisor.Ready, WasReady: l.WasReady, Over: l.IsOver()}
}

// startConfigured starts slurmctld as soon as a configuration is in its place.
func (l State) startConfigured() (State, []Action) {
	l.Activity = supervisor.ChoosingConf
	return l.configure(conf.StartDue{})
}

// mayTryOther says whether slurmctld has ended before it was Ready, and there is another configuration.
func (l State) mayTryOther() bool { return l.Reloads && !l.WasReady && l.Conf.HasOther() }

func (l State) tryOther(what string) (State, []Action) {
	l.Starts++
	l.Activity = supervisor.ChoosingConf
	return l.configure(conf.Ended{What: what})
}

// ConfNews compares the configuration with that of the state before the step.
func (l State) ConfNews(old State) conf.News { return l.Conf.News(old.Conf, l.WasReady, old.WasReady) }
