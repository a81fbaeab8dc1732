package agent

import "time"

// terminate begins the orderly stop. A second signal shortens nothing, but for
// an impatient one: SIGINT twice, in a terminal.
func (l life) terminate(e terminated) (life, []action) {
	switch {
	case l.state == Exited:
		return l, nil
	case l.state == Stopping && e.again:
		return l.end("SIGINT received twice")
	case l.state == Stopping:
		return l, nil
	}
	l.state, l.reason, l.stoppedAt = Stopping, e.signal+" received", e.at
	if l.Grace.Outlived(e.at) {
		l.reason += "; the deadline of " + l.Grace.Deadline.Source + " was over before, and counts for nothing"
	}
	l, _ = l.hasten(e.at)
	if l.hosts {
		return l.part()
	}
	switch {
	case !l.registers:
		return l.end("")
	case !l.inService():
		return l.leaveUnlisted()
	}
	return l.withdraw(e.idle)
}

// end stops the daemon. left is what could not be done before, empty for nothing.
func (l life) end(left string) (life, []action) {
	if l.doing == ending {
		return l, nil
	}
	l.doing, l.left = ending, left
	l.question++ // what was asked is of no interest any more
	if left != "" {
		l.reason = left
	}
	switch {
	case l.main == 0 && !l.starting:
		return l.leaveWith(ExitOK)
	case l.killed && !l.maySpeak():
		return l.leaveWith(128 + 9) // SIGKILL has not ended it, and SIGTERM will not
	}
	l, actions := l.wait(l.stopLimit())
	if l.acted >= toFail {
		// slurmd waits for the steps of jobs that slurmctld has failed, and a
		// slurmstepd may go on telling an srun that is gone (24.11.5).
		actions = append(actions, killSteps{})
	}
	if l.main != 0 {
		actions = append(actions, signalMain{sigTerm})
	}
	return l, actions
}

// stopLimit is how long the daemon gets from SIGTERM to SIGKILL. Before jobs are
// requeued it is certain to have more: on a machine that stops many pods at once,
// slurmd may need it.
func (l life) stopLimit() time.Duration {
	switch {
	case !l.registers:
		return l.way.End
	case l.stage < toRequeue:
		return l.way.End - l.way.Requeue
	}
	return l.way.End - l.way.Stop
}

// overdue: the daemon has not stopped in time; after SIGKILL the agent does
// not wait for ever either.
func (l life) overdue() (life, []action) {
	if l.killed || l.main == 0 {
		return l.leaveWith(128 + 9)
	}
	l.killed = true
	l.reason = "the daemon did not stop in time and was killed"
	l, actions := l.wait(l.way.Exit - l.way.End)
	return l, append(actions, signalMain{sigKill})
}

// leaveWith ends the agent. What was left undone is told by the status, unless
// the daemon's own tells more.
func (l life) leaveWith(code int) (life, []action) {
	if code == ExitOK && l.left != "" {
		code = ExitLeft
	}
	l.state, l.doing, l.code = Exited, nothing, code
	return l, []action{exit{code}}
}

// endedByTerm is the end of a daemon that was too young to catch SIGTERM: as
// much in order as the end of one that caught it.
const endedByTerm = 128 + 15

// exited: a process that was main has ended. Only the present main counts.
func (l life) exited(e mainExited) (life, []action) {
	if e.pid != l.main || l.main == 0 {
		return l, nil
	}
	l.main = 0
	l.question++ // what was asked about this daemon is stale
	switch {
	case l.state == Exited:
		return l, nil
	case l.doing == ending && e.code == endedByTerm:
		return l.leaveWith(ExitOK)
	case l.doing == ending:
		return l.leaveWith(e.code)
	case l.unproven():
		return l.failedFirst(e.what)
	case l.postponed():
		return l.startPostponed()
	case !l.restarts && l.doing == replacing: // for a reason of the agent's
		return l.leaveWith(ExitFailure)
	case !l.restarts:
		l.reason = e.what
		return l.leaveWith(e.code)
	case l.doing == replacing && l.state == Stopping:
		return l.relaunch()
	case l.doing == replacing && l.registers:
		return l.launch()
	case l.doing == replacing:
		l.state = Starting
		return l.begin()
	}
	if e.uptime >= steady {
		l.failures = 0
	}
	return l.pause(e.what)
}

// failed: the daemon could not be started at all.
func (l life) failed(e mainFailed) (life, []action) {
	l.starting = false
	switch {
	case l.doing == ending:
		return l.leaveWith(ExitOK)
	case !l.restarts:
		l.reason = e.err.Error()
		return l.leaveWith(ExitFailure)
	}
	return l.pause(e.err.Error())
}

// pause waits before the daemon is started again, longer from failure to
// failure. One that ends while its node is taken out of service is needed too:
// without it slurmctld cannot be spoken to.
func (l life) pause(reason string) (life, []action) {
	if l.state != Stopping {
		l.state = Starting
	}
	l.doing, l.reason = pausing, reason
	l.failures++
	return l.wait(grow(firstPause, l.failures-1, lastPause))
}
