package agent

// prepareConf finds the set that slurmctld is started with: what the sources
// hold if it can be used, else the last good one. One that was good before
// needs no check.
func (l life) prepareConf() (life, []action) {
	e := l.next
	l.next, l.doing = nil, preparing
	switch {
	case e.err != nil:
		return l.refuseUnseen(e, e.err).fallBack()
	case e.set.Same(l.good):
		return l.inPlace(e, "")
	}
	l.trying, l.reloading = e, checking
	l.put++
	return l, []action{checkFirst{l.put, e.set, l.good}}
}

func (l life) lookedFirst(e checked) (life, []action) {
	trying := l.trying
	l.trying, l.reloading = nil, quiet
	switch {
	case isInUse(e.err): // it is for a slurmctld that runs to say
		later := *trying
		later.inUse = true
		if l.next != nil {
			later = *l.next.over(&later)
		}
		l.next = &later
		return l.fallBack()
	case e.err != nil:
		return l.refuseUnseen(trying, e.err).fallBack()
	}
	l.anew = e.anew
	return l.inPlace(trying, e.staged)
}

// fallBack starts slurmctld with the last good set.
func (l life) fallBack() (life, []action) {
	if l.good == nil {
		l.reason = "cannot use the configuration, and there is no earlier one that was good: " + l.why
		return l.leaveWith(ExitConfig)
	}
	return l.inPlace(&edition{set: l.good}, "")
}

// tryStarted has slurmctld reconfigure with the set that it was started with, which
// pushes it to the nodes.
func (l life) tryStarted() (life, []action) {
	l.trying, l.unsettled, l.reloading = &edition{set: l.live, at: l.mainSince}, true, sending
	l.put++
	return l, []action{awaitLaunches{l.put, l.patience(l.live)}}
}

// inPlace makes a set the live one before slurmctld is started.
func (l life) inPlace(e *edition, staged string) (life, []action) {
	l.live, l.doing = e.set, preparing
	l.put++
	return l, []action{place{l.put, e.set, staged}}
}

func (l life) placed(e placeEnded) (life, []action) {
	switch {
	case e.number != l.put || l.doing != preparing || l.isOver():
		return l, nil
	case e.err != nil:
		l.reason = e.err.Error()
		return l.leaveWith(ExitFailure)
	}
	return l.launch()
}

// failedFirst: slurmctld has ended before it was Ready, with a set that was
// never good, as is told since it began. The last good one gets its turn.
func (l life) failedFirst(why string) (life, []action) {
	l.starts++
	l.outcomes.rolledBack++
	return l.judge(&edition{set: l.live, at: l.mainSince}, why).fallBack()
}

// postponed: slurmctld has ended before it was Ready with the last good set, though
// there is one that was put off only for the jobs' sake. What it ended over may be mended there.
func (l life) postponed() bool {
	return l.reloads && !l.wasReady && l.next != nil && l.next.inUse
}

func (l life) startPostponed() (life, []action) {
	e := l.next
	l.next = nil
	l.starts++
	return l.inPlace(e, "")
}

// unproven: slurmctld was started with a set that was not good before.
func (l life) unproven() bool {
	return l.reloads && !l.wasReady && l.good != nil && l.live != nil && !l.live.Same(l.good)
}

// proven: slurmctld is Ready with the live set. Its nodes may run with the last good one:
// then they have their say as about any other edit.
func (l life) proven(first bool) (life, []action) {
	var actions []action
	switch {
	case !first || l.live.Same(l.good):
	case l.good != nil && !l.anew:
		return l.tryStarted()
	default:
		l.good = l.live
		actions = append(actions, keep{l.good})
	}
	switch l.reloading {
	case reconfiguring, restoring:
		return l.taken()
	case quiet:
		l, more := l.tryNext()
		return l, append(actions, more...)
	}
	return l, actions
}
