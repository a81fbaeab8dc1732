package lifecycle

import (
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// configure gives an event to slurmctld's configuration, and follows the orders that come of it.
func (s State) configure(e conf.Event) (State, []Action) {
	if !s.Reloads {
		return s, nil
	}
	var orders []conf.Action
	s.Conf, orders = conf.Step(s.Conf, s.slurmctld(), e)
	var actions []Action
	for _, order := range orders {
		more := []Action{order}
		switch order := order.(type) {
		case conf.Launch:
			if !s.WasReady {
				s.Reason = ""
			}
			s, more = s.with(s.Launch())
		case conf.End:
			s, more = s.with(s.Replace(order.Why))
		case conf.GiveUp:
			s.Reason = order.Why
			s, more = s.with(s.LeaveWith(order.Code))
		}
		actions = append(actions, more...)
	}
	return s, actions
}

// slurmctld is what its configuration sees of it.
func (s State) slurmctld() conf.Daemon {
	return conf.Daemon{PID: s.Main, Since: s.MainSince, Ready: s.Phase == supervisor.Ready, WasReady: s.WasReady, Over: s.IsOver()}
}

// startConfigured starts slurmctld as soon as a configuration is in its place.
func (s State) startConfigured() (State, []Action) {
	s.Activity = supervisor.ChoosingConf
	return s.configure(conf.StartDue{})
}

// mayTryOther says whether slurmctld has ended before it was Ready, and there is another configuration.
func (s State) mayTryOther() bool { return s.Reloads && !s.WasReady && s.Conf.HasOther() }

func (s State) tryOther(what string) (State, []Action) {
	s.Starts++
	s.Activity = supervisor.ChoosingConf
	return s.configure(conf.Ended{What: what})
}

// ConfAnnouncement compares the configuration with that of the state before the step.
func (s State) ConfAnnouncement(old State) conf.Announcement {
	return s.Conf.Announcement(old.Conf, s.WasReady, old.WasReady)
}
