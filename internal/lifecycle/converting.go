package lifecycle

import (
	"errors"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// A slurmdbd converts its database before it listens, which may take hours. Until then it neither catches nor blocks
// SIGTERM and SIGHUP, so each ends it at once, and the conversion with it (24.11.5 and 26.05.5). Nobody knows whether it
// converts, so one that does not listen counts as one that does.

// signal is what slurmdbd has still to get because of an edit.
type signal int

const (
	noSignal signal = iota
	sighup
	restart
)

// servedStop is what a slurmdbd that listens gets from SIGTERM to SIGKILL: its grace period is for conversions.
const servedStop = time.Minute

// signalDelay is what a slurmdbd is left in before its first signal: it catches signals some time after it has begun to listen,
// one after the other, and ends by a SIGUSR1 of its own where it has caught SIGTERM alone.
const signalDelay = time.Second

// converting: main may convert its database, so no signal may reach it.
func (l State) converting() bool { return l.Converts && (l.StartAsked || l.Main != 0 && !l.listens) }

// notListening returns the reason of a slurmdbd that gets no signal yet.
func (l State) notListening(err error) string {
	reason := "slurmdbd converts its database or waits for it since " + l.MainSince.UTC().Format(time.RFC3339) + ": " + err.Error()
	if l.unread != noSignal && l.Phase != supervisor.Stopping {
		reason += "; an edit waits for that"
	}
	if l.Phase == supervisor.Stopping {
		reason = "SIGTERM received; " + reason
	}
	return reason
}

// postpone keeps an edit until it listens.
func (l State) postpone(how signal) State {
	l.unread = max(l.unread, how)
	return l
}

// signalLate sends it what edits have asked for meanwhile.
func (l State) signalLate() (State, []Action) {
	how := l.unread
	l.unread = noSignal
	if how == restart {
		return l.with(l.Replace("the configuration has changed"))
	}
	return l.sendHUP()
}

// awaitListening is the way down of a slurmdbd that may convert: it gets SIGTERM when it listens, and killed at the very
// end of the pod's time.
func (l State) awaitListening() (State, []Action) {
	l.Activity, l.Tries = supervisor.Converting, 0
	actions := []Action{deadlines.Schedule{Stage: deadlines.End, After: l.Deadlines.End}}
	if l.Main == 0 {
		return l, actions // its start is still to come
	}
	l.Reason = l.notListening(errors.New("it gets SIGTERM when it listens"))
	l, question := l.with(l.AskService())
	return l, append(actions, question...)
}

// answerConverting: it listens, or does not yet.
func (l State) answerConverting(e node.Answered) (State, []Action) {
	if e.Err != nil {
		return l.again(l.notListening(e.Err))
	}
	l.listens = true
	return l.with(l.Wait(signalDelay))
}

// askConverting: it has not listened the last time, or has had its peace.
func (l State) askConverting() (State, []Action) {
	if l.listens {
		return l.end("")
	}
	return l.with(l.AskService())
}

// killConverting: the pod's time is over.
func (l State) killConverting() (State, []Action) {
	l.Activity = supervisor.Ending
	l.Question++ // whether it listens is of no interest any more
	l, actions := l.with(l.Overdue())
	l.Reason = "the time was over before slurmdbd listened, and it was killed"
	return l, actions
}

// takeAway: it has no connection to its database, and tries again in some seconds. So it does not convert now.
func (l State) takeAway() (State, []Action) {
	switch {
	case !l.converting() || l.Main == 0:
		return l, nil
	case l.Activity == supervisor.Converting:
		return l.end("")
	case l.unread != noSignal && l.Phase != supervisor.Stopping:
		l.unread = noSignal
		return l.with(l.Replace("the configuration has changed"))
	}
	return l, nil
}
