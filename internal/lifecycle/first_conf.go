package lifecycle

import "github.com/slurmlet/slurmlet/internal/kit/exitcode"

// chooseConf finds the set that slurmctld is started with: what the sources
// hold if it can be used, else the last good one. One that was good before
// needs no check.
func (l State) chooseConf() (State, []Action) {
	e := l.Next
	l.Next, l.Activity = nil, ChoosingConf
	switch {
	case e.Err != nil:
		return l.refuseUnseen(e, e.Err).fallBack()
	case e.Set.Same(l.Good):
		return l.inPlace(e, "")
	}
	l.trying, l.ConfActivity = e, Checking
	l.put++
	return l, []Action{CheckFirst{l.put, e.Set, l.Good}}
}

func (l State) lookedFirst(e Checked) (State, []Action) {
	trying := l.trying
	l.trying, l.ConfActivity = nil, ConfIdle
	switch {
	case IsInUse(e.Err): // it is for a slurmctld that runs to say
		later := *trying
		later.InUse = true
		if l.Next != nil {
			later = *l.Next.over(&later)
		}
		l.Next = &later
		return l.fallBack()
	case e.Err != nil:
		return l.refuseUnseen(trying, e.Err).fallBack()
	}
	l.anew = e.Anew
	return l.inPlace(trying, e.Staged)
}

// fallBack starts slurmctld with the last good set.
func (l State) fallBack() (State, []Action) {
	if l.Good == nil {
		l.Reason = "cannot use the configuration, and there is no earlier one that was good: " + l.Why
		return l.leaveWith(exitcode.Config)
	}
	return l.inPlace(&Revision{Set: l.Good}, "")
}

// tryStarted has slurmctld reconfigure with the set that it was started with, which
// pushes it to the nodes.
func (l State) tryStarted() (State, []Action) {
	l.trying, l.Unsettled, l.ConfActivity = &Revision{Set: l.Live, At: l.MainSince}, true, AwaitingLaunches
	l.put++
	return l, []Action{AwaitLaunches{l.put, l.patience(l.Live)}}
}

// inPlace makes a set the live one before slurmctld is started.
func (l State) inPlace(e *Revision, staged string) (State, []Action) {
	l.Live, l.Activity = e.Set, ChoosingConf
	l.put++
	return l, []Action{Place{l.put, e.Set, staged}}
}

func (l State) placed(e PlaceEnded) (State, []Action) {
	switch {
	case e.Number != l.put || l.Activity != ChoosingConf || l.IsOver():
		return l, nil
	case e.Err != nil:
		l.Reason = e.Err.Error()
		return l.leaveWith(exitcode.Failure)
	}
	if !l.WasReady {
		l.Reason = ""
	}
	return l.launch()
}

// failedFirst: slurmctld has ended before it was Ready, with a set that was
// never good, as is told since it began. The last good one gets its turn.
func (l State) failedFirst(why string) (State, []Action) {
	l.Starts++
	l.Outcomes.RolledBack++
	return l.resolve(&Revision{Set: l.Live, At: l.MainSince}, why).fallBack()
}

// postponed: slurmctld has ended before it was Ready with the last good set, though
// there is one that was put off only for the jobs' sake. What it ended over may be mended there.
func (l State) postponed() bool {
	return l.Reloads && !l.WasReady && l.Next != nil && l.Next.InUse
}

func (l State) startPostponed() (State, []Action) {
	e := l.Next
	l.Next = nil
	l.Starts++
	return l.inPlace(e, "")
}

// unproven: slurmctld was started with a set that was not good before.
func (l State) unproven() bool {
	return l.Reloads && !l.WasReady && l.Good != nil && l.Live != nil && !l.Live.Same(l.Good)
}

// proven: slurmctld is Ready with the live set. Its nodes may run with the last good one:
// then they have their say as about any other edit.
func (l State) proven(first bool) (State, []Action) {
	var actions []Action
	switch {
	case !first || l.Live.Same(l.Good):
	case l.Good != nil && !l.anew:
		return l.tryStarted()
	default:
		l.Good = l.Live
		actions = append(actions, Keep{l.Good})
	}
	switch l.ConfActivity {
	case Reconfiguring, Restoring:
		return l.taken()
	case ConfIdle:
		l, more := l.tryNext()
		return l, append(actions, more...)
	}
	return l, actions
}
