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
func (s State) converting() bool { return s.Converts && (s.StartAsked || s.Main != 0 && !s.listens) }

// notListening returns the reason of a slurmdbd that gets no signal yet.
func (s State) notListening(err error) string {
	reason := "slurmdbd converts its database or waits for it since " + s.MainSince.UTC().Format(time.RFC3339) + ": " + err.Error()
	if s.unread != noSignal && s.Phase != supervisor.Stopping {
		reason += "; an edit waits for that"
	}
	if s.Phase == supervisor.Stopping {
		reason = "SIGTERM received; " + reason
	}
	return reason
}

// postpone keeps an edit until slurmdbd listens.
func (s State) postpone(how signal) State {
	s.unread = max(s.unread, how)
	return s
}

// signalLate sends it what edits have asked for meanwhile.
func (s State) signalLate() (State, []Action) {
	how := s.unread
	s.unread = noSignal
	if how == restart {
		return s.with(s.Replace("the configuration has changed"))
	}
	return s.sendHUP()
}

// awaitListening is the way down of a slurmdbd that may convert: it gets SIGTERM when it listens, and killed at the very
// end of the pod's time.
func (s State) awaitListening() (State, []Action) {
	s.Activity, s.Tries = supervisor.Converting, 0
	actions := []Action{deadlines.Schedule{Stage: deadlines.End, After: s.Deadlines.End}}
	if s.Main == 0 {
		return s, actions // its start is still to come
	}
	s.Reason = s.notListening(errors.New("it gets SIGTERM when it listens"))
	s, question := s.with(s.AskService())
	return s, append(actions, question...)
}

// answerConverting: it listens, or does not yet.
func (s State) answerConverting(e node.Answered) (State, []Action) {
	if e.Err != nil {
		return s.again(s.notListening(e.Err))
	}
	s.listens = true
	return s.with(s.Wait(signalDelay))
}

// askConverting: it has not listened the last time, or has had its peace.
func (s State) askConverting() (State, []Action) {
	if s.listens {
		return s.end("")
	}
	return s.with(s.AskService())
}

// killConverting: the pod's time is over.
func (s State) killConverting() (State, []Action) {
	s.Activity = supervisor.Ending
	s.Question++ // whether it listens is of no interest any more
	s, actions := s.with(s.Overdue())
	s.Reason = "the time was over before slurmdbd listened, and it was killed"
	return s, actions
}

// takeAway: it has no connection to its database, and tries again in some seconds. So it does not convert now.
func (s State) takeAway() (State, []Action) {
	switch {
	case !s.converting() || s.Main == 0:
		return s, nil
	case s.Activity == supervisor.Converting:
		return s.end("")
	case s.unread != noSignal && s.Phase != supervisor.Stopping:
		s.unread = noSignal
		return s.with(s.Replace("the configuration has changed"))
	}
	return s, nil
}
