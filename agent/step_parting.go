package agent

// part sees the sessions of a login pod off: nobody new comes in, who is there is
// told until when, and is waited for. The daemon that vouches for them stays.
func (l life) part() (life, []action) {
	l.timer++
	l.question++ // nothing is confirmed any more
	if l.doing != launching && l.doing != pausing {
		l.doing = parting
	}
	actions := []action{
		seeOff{l.way.Fail},
		schedule{toSignal, l.way.Signal},
		schedule{toFail, l.way.Fail},
		schedule{toLeave, l.way.Leave},
		schedule{toStop, l.way.Stop},
	}
	if l.doing == pausing {
		l, more := l.relaunch()
		return l, append(actions, more...)
	}
	return l, actions
}

// partingDue: one of the deadlines is over. Sessions are asked to end where a
// node's jobs fail.
func (l life) partingDue(s stage) (life, []action) {
	switch s {
	case toSignal:
		return l, []action{warnSessions{l.way.Fail - l.way.Signal}}
	case toFail:
		l.reason = "the time for sessions is over"
		return l, []action{endSessions{}}
	case toLeave:
		return l, []action{endSessions{kill: true}}
	case toStop:
		return l.end("")
	}
	return l, nil
}

// alone: the last session is over.
func (l life) alone() (life, []action) {
	if l.state != Stopping {
		return l, nil
	}
	return l.end("")
}
