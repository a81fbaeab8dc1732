package agent

// terminate begins the orderly stop. A second signal shortens nothing.
func (l life) terminate(e terminated) (life, []action) {
	if l.state == Stopping || l.state == Exited {
		return l, nil
	}
	l.state, l.doing, l.reason = Stopping, nothing, e.signal+" received"
	if l.main == 0 && !l.starting {
		return l.leaveWith(ExitOK)
	}
	l, actions := l.wait(l.stop)
	if l.main != 0 {
		actions = append(actions, signalMain{sigTerm})
	}
	return l, actions
}

// overdue: the daemon has not stopped in time; after SIGKILL the agent does
// not wait for ever either.
func (l life) overdue() (life, []action) {
	if l.killed || l.main == 0 {
		return l.leaveWith(128 + 9)
	}
	l.killed = true
	l.reason = "the daemon did not stop in time and was killed"
	l, actions := l.wait(l.end)
	return l, append(actions, signalMain{sigKill})
}

func (l life) leaveWith(code int) (life, []action) {
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
	case l.state == Stopping && e.code == endedByTerm:
		return l.leaveWith(ExitOK)
	case l.state == Stopping:
		return l.leaveWith(e.code)
	case !l.restarts:
		l.reason = e.what
		return l.leaveWith(e.code)
	case l.doing == replacing:
		return l.launch()
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
	case l.state == Stopping:
		return l.leaveWith(ExitOK)
	case !l.restarts:
		l.reason = e.err.Error()
		return l.leaveWith(ExitFailure)
	}
	return l.pause(e.err.Error())
}

// pause waits before the daemon is started again, longer from failure to failure.
func (l life) pause(reason string) (life, []action) {
	l.state, l.doing, l.reason = Starting, pausing, reason
	l.failures++
	return l.wait(grow(firstPause, l.failures-1, lastPause))
}
