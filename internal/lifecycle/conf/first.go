package conf

import "github.com/slurmlet/slurmlet/internal/kit/exitcode"

// choose finds the set that slurmctld is started with. One that has served before gets the live set again: what
// slurmctld has saved is made ready with it.
func (m machine) choose() (machine, []Action) {
	if m.WasReady {
		m.noReply = 0
		return m.inPlace(&Revision{Set: m.Live}, "")
	}
	return m.chooseFirst()
}

// chooseFirst finds the set that slurmctld is started with: what the sources
// hold if it can be used, else the last good one. One that was good before
// needs no check.
func (m machine) chooseFirst() (machine, []Action) {
	e := m.Next
	m.Next, m.choosing = nil, true
	switch {
	case e.Err != nil:
		return m.refuseUnseen(e, e.Err).fallBack()
	case e.Set.Same(m.Good):
		return m.inPlace(e, "")
	}
	m.Trying, m.Activity = e, Checking
	m.Question++
	return m, []Action{CheckFirst{m.Question, e.Set, m.Good}}
}

func (m machine) checkedFirst(e Checked) (machine, []Action) {
	trying := m.Trying
	m.Trying, m.Activity = nil, Idle
	switch {
	case IsInUse(e.Err): // it is for a slurmctld that runs to say
		later := *trying
		later.InUse = true
		if m.Next != nil {
			later = *m.Next.over(&later)
		}
		m.Next = &later
		return m.fallBack()
	case e.Err != nil:
		return m.refuseUnseen(trying, e.Err).fallBack()
	}
	m.anew = e.Anew
	return m.inPlace(trying, e.Staged)
}

// fallBack starts slurmctld with the last good set.
func (m machine) fallBack() (machine, []Action) {
	if m.Good == nil {
		return m.endStart("cannot use the configuration, and there is no earlier one that was good: "+m.Why, exitcode.Config)
	}
	return m.inPlace(&Revision{Set: m.Good}, "")
}

// tryStarted has slurmctld reconfigure with the set that it was started with, which
// pushes it to the nodes.
func (m machine) tryStarted() (machine, []Action) {
	m.Trying, m.Unsettled, m.Activity = &Revision{Set: m.Live, At: m.Since}, true, AwaitingLaunches
	m.Question++
	return m, []Action{AwaitLaunches{m.Question, m.launchLimit(m.Live)}}
}

// inPlace makes a set the live one before slurmctld is started.
func (m machine) inPlace(e *Revision, staged string) (machine, []Action) {
	m.Live, m.choosing = e.Set, true
	m.Question++
	return m, []Action{Place{m.Question, e.Set, staged}}
}

func (m machine) placed(e PlaceEnded) (machine, []Action) {
	switch {
	case e.Number != m.Question || !m.choosing:
		return m, nil
	case e.Err != nil:
		return m.endStart(e.Err.Error(), exitcode.Of(e.Err))
	}
	m.choosing = false
	return m, []Action{Launch{}}
}

func (m machine) endStart(why string, code int) (machine, []Action) {
	m.choosing = false
	return m, []Action{GiveUp{why, code}}
}

// failedFirst: slurmctld has ended before it was Ready, with a set that was
// never good, as the status says since it began. The last good one gets its turn.
func (m machine) failedFirst(why string) (machine, []Action) {
	m.Outcomes.RolledBack++
	return m.resolve(&Revision{Set: m.Live, At: m.Since}, why).fallBack()
}

// postponed: slurmctld has ended before it was Ready with the last good set, though
// there is one that was put off only for the jobs' sake. What it ended over may be mended there.
func (s State) postponed() bool { return s.Next != nil && s.Next.InUse }

func (m machine) startPostponed() (machine, []Action) {
	e := m.Next
	m.Next = nil
	return m.inPlace(e, "")
}

// unproven: slurmctld was started with a set that was not good before.
func (s State) unproven() bool { return s.Good != nil && s.Live != nil && !s.Live.Same(s.Good) }

// HasOther says whether there is another set to start a slurmctld with that has ended before it was Ready.
func (s State) HasOther() bool { return s.unproven() || s.postponed() }

// tryOther puts that one in place.
func (m machine) tryOther(why string) (machine, []Action) {
	switch {
	case m.unproven():
		return m.failedFirst(why)
	case m.postponed():
		return m.startPostponed()
	}
	return m, nil
}

// takeServed: slurmctld is Ready with the live set. Its nodes may run with the last good one:
// then they have their say as about any other edit.
func (m machine) takeServed(first bool) (machine, []Action) {
	var actions []Action
	switch {
	case !first || m.Live.Same(m.Good):
	case m.Good != nil && !m.anew:
		return m.tryStarted()
	default:
		m.Good = m.Live
		actions = append(actions, Keep{})
	}
	switch m.Activity {
	case Reconfiguring, Restoring:
		return m.taken()
	case Idle:
		m, more := m.tryNext()
		return m, append(actions, more...)
	}
	return m, actions
}
