package lifecycle

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/sessions"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// A role without a node serves as soon as its daemon answers.

// answered: what was asked last has an answer.
func (s State) answered(e node.Answered) (State, []Action) {
	switch {
	case e.Number != s.Question:
		return s, nil
	case s.Phase == supervisor.Stopping:
		return s.answeredStopping(e)
	case exitcode.IsFault(e.Err) && s.Activity == supervisor.Reaching:
		s.Reason = e.Err.Error()
		return s.with(s.LeaveWith(exitcode.Of(e.Err)))
	case e.Err != nil && s.converting():
		return s.again(s.notListening(e.Err))
	case e.Err != nil:
		return s.again(e.Err.Error())
	case s.Activity == supervisor.Reaching:
		s.Reason = ""
		return s.with(s.Launch())
	}
	return s.serve() // confirmed, or what was complained of answers
}

func (s State) again(reason string) (State, []Action) {
	return s.with(s.Again(reason, backoff.LastTry))
}

// ask asks what is waited for once more.
func (s State) ask() (State, []Action) {
	if s.Activity == supervisor.Doubting {
		return s.with(s.TryToReach())
	}
	return s.with(s.AskService())
}

// fired: what was waited for has not come in time, or a pause is over.
func (s State) fired() (State, []Action) {
	switch s.Activity {
	case supervisor.Pausing:
		s.Starts++
		return s.begin()
	case supervisor.Replacing:
		return s.with(s.OverdueReplaced())
	case supervisor.Idle:
		if s.unread != noSignal {
			return s.signalLate()
		}
		return s, nil
	case supervisor.Launching, supervisor.AwaitingDescription, supervisor.ChoosingConf:
		return s, nil
	case supervisor.Reaching:
		return s.begin()
	}
	return s.ask()
}

// doubt asks what a daemon that serves has complained of, until it answers.
func (s State) doubt() (State, []Action) {
	if s.Phase != supervisor.Ready || s.Activity != supervisor.Idle || !s.Reaches {
		return s, nil
	}
	s.Activity, s.Tries = supervisor.Doubting, 0
	return s.ask()
}

// measured: the pod was looked at again. Only the time that it grants counts.
func (s State) measured(e node.Measured) (State, []Action) {
	s.Node = s.WithGrace(e)
	if s.Phase == supervisor.Stopping {
		s.Node = s.WithFault(e)
		return s.hasten(e.At)
	}
	if e.Err != nil {
		s.Fault = e.Err.Error()
		return s, nil
	}
	s.Fault = ""
	s.Allocation = &nodesize.Allocation{Resources: e.Resources, Size: e.Size, Traits: e.Traits.After(s.Traits), Grace: e.Grace}
	return s, nil
}

// hasten brings the deadlines of the way down forward.
func (s State) hasten(now time.Time) (State, []Action) {
	if s.Hosts {
		return s.with(sessions.Hasten(s.Supervisor, s.Grace, now))
	}
	return s.with(s.Hasten(s.Grace, now))
}
