package lifecycle

// awaitSessions lets nobody new into a login pod, tells the users who are logged in until when
// they may stay, and waits for them. The daemon that vouches for them stays.
func (l State) awaitSessions() (State, []Action) {
	l.timer++
	l.question++ // nothing is confirmed any more
	if l.Activity != Launching && l.Activity != Pausing {
		l.Activity = AwaitingSessions
	}
	l, deadlines := l.bind()
	actions := append([]Action{DrainSessions{l.Deadlines.Fail}}, deadlines...)
	if l.Activity == Pausing {
		l, more := l.relaunch()
		return l, append(actions, more...)
	}
	return l, actions
}

// sessionsDue: one of the deadlines is over. Sessions are asked to end where a
// node's jobs fail.
func (l State) sessionsDue(s Stage) (State, []Action) {
	switch s {
	case toSignal:
		return l, []Action{WarnSessions{l.Deadlines.Fail - l.Deadlines.Signal}}
	case toFail:
		l.Reason = "the time for sessions is over"
		return l, []Action{EndSessions{}}
	case toLeave:
		return l, []Action{EndSessions{Kill: true}}
	case toStop:
		return l.end("")
	}
	return l, nil
}
