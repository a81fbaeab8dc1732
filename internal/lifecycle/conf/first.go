package conf

import "github.com/slurmlet/slurmlet/internal/kit/exitcode"

// choose finds the set that slurmctld is started with. One that has served before gets the live set again: what
// slurmctld has saved is made ready with it.
func (c machine) choose() (machine, []Action) {
	if c.WasReady {
		c.noReply = 0
		return c.inPlace(&Revision{Set: c.Live}, "")
	}
	return c.chooseFirst()
}

// chooseFirst finds the set that slurmctld is started with: what the sources
// hold if it can be used, else the last good one. One that was good before
// needs no check.
func (c machine) chooseFirst() (machine, []Action) {
	e := c.Next
	c.Next, c.choosing = nil, true
	switch {
	case e.Err != nil:
		return c.refuseUnseen(e, e.Err).fallBack()
	case e.Set.Same(c.Good):
		return c.inPlace(e, "")
	}
	c.Trying, c.Activity = e, Checking
	c.Question++
	return c, []Action{CheckFirst{c.Question, e.Set, c.Good}}
}

func (c machine) checkedFirst(e Checked) (machine, []Action) {
	trying := c.Trying
	c.Trying, c.Activity = nil, Idle
	switch {
	case IsInUse(e.Err): // it is for a slurmctld that runs to say
		later := *trying
		later.InUse = true
		if c.Next != nil {
			later = *c.Next.over(&later)
		}
		c.Next = &later
		return c.fallBack()
	case e.Err != nil:
		return c.refuseUnseen(trying, e.Err).fallBack()
	}
	c.anew = e.Anew
	return c.inPlace(trying, e.Staged)
}

// fallBack starts slurmctld with the last good set.
func (c machine) fallBack() (machine, []Action) {
	if c.Good == nil {
		return c.endStart("cannot use the configuration, and there is no earlier one that was good: "+c.Why, exitcode.Config)
	}
	return c.inPlace(&Revision{Set: c.Good}, "")
}

// tryStarted has slurmctld reconfigure with the set that it was started with, which
// pushes it to the nodes.
func (c machine) tryStarted() (machine, []Action) {
	c.Trying, c.Unsettled, c.Activity = &Revision{Set: c.Live, At: c.Since}, true, AwaitingLaunches
	c.Question++
	return c, []Action{AwaitLaunches{c.Question, c.launchLimit(c.Live)}}
}

// inPlace makes a set the live one before slurmctld is started.
func (c machine) inPlace(e *Revision, staged string) (machine, []Action) {
	c.Live, c.choosing = e.Set, true
	c.Question++
	return c, []Action{Place{c.Question, e.Set, staged}}
}

func (c machine) placed(e PlaceEnded) (machine, []Action) {
	switch {
	case e.Number != c.Question || !c.choosing:
		return c, nil
	case e.Err != nil:
		return c.endStart(e.Err.Error(), exitcode.Failure)
	}
	c.choosing = false
	return c, []Action{Launch{}}
}

func (c machine) endStart(why string, code int) (machine, []Action) {
	c.choosing = false
	return c, []Action{GiveUp{why, code}}
}

// failedFirst: slurmctld has ended before it was Ready, with a set that was
// never good, as the status says since it began. The last good one gets its turn.
func (c machine) failedFirst(why string) (machine, []Action) {
	c.Outcomes.RolledBack++
	return c.resolve(&Revision{Set: c.Live, At: c.Since}, why).fallBack()
}

// postponed: slurmctld has ended before it was Ready with the last good set, though
// there is one that was put off only for the jobs' sake. What it ended over may be mended there.
func (s State) postponed() bool { return s.Next != nil && s.Next.InUse }

func (c machine) startPostponed() (machine, []Action) {
	e := c.Next
	c.Next = nil
	return c.inPlace(e, "")
}

// unproven: slurmctld was started with a set that was not good before.
func (s State) unproven() bool { return s.Good != nil && s.Live != nil && !s.Live.Same(s.Good) }

// HasOther says whether there is another set to start a slurmctld with that has ended before it was Ready.
func (s State) HasOther() bool { return s.unproven() || s.postponed() }

// tryOther puts that one in place.
func (c machine) tryOther(why string) (machine, []Action) {
	switch {
	case c.unproven():
		return c.failedFirst(why)
	case c.postponed():
		return c.startPostponed()
	}
	return c, nil
}

// takeServed: slurmctld is Ready with the live set. Its nodes may run with the last good one:
// then they have their say as about any other edit.
func (c machine) takeServed(first bool) (machine, []Action) {
	var actions []Action
	switch {
	case !first || c.Live.Same(c.Good):
	case c.Good != nil && !c.anew:
		return c.tryStarted()
	default:
		c.Good = c.Live
		actions = append(actions, Keep{c.Good})
	}
	switch c.Activity {
	case Reconfiguring, Restoring:
		return c.taken()
	case Idle:
		c, more := c.tryNext()
		return c, append(actions, more...)
	}
	return c, actions
}
