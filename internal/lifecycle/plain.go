package lifecycle

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/sessions"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// A role without a node serves as soon as its daemon answers.

// answered: what was asked last has an answer.
func (l State) answered(e node.Answered) (State, []Action) {
	switch {
	case e.Number != l.Question:
		return l, nil
	case l.Phase == supervisor.Stopping:
		return l.answeredStopping(e)
	case e.Err != nil && l.converting():
		return l.again(l.notListening(e.Err))
	case e.Err != nil:
		return l.again(e.Err.Error())
	case l.Activity == supervisor.Reaching:
		l.Reason = ""
		return l.with(l.Launch())
	}
	return l.serve() // confirmed, or what was complained of answers
}

func (l State) again(reason string) (State, []Action) {
	return l.with(l.Again(reason, backoff.LastTry))
}

// ask asks what is waited for once more.
func (l State) ask() (State, []Action) {
	if l.Activity == supervisor.Doubting {
		return l.with(l.TryToReach())
	}
	return l.with(l.AskService())
}

// fired: what was waited for has not come in time, or a pause is over.
func (l State) fired() (State, []Action) {
	switch l.Activity {
	case supervisor.Pausing:
		l.Starts++
		return l.begin()
	case supervisor.Replacing:
		return l.with(l.OverdueReplaced())
	case supervisor.Idle:
		if l.unread != noSignal {
			return l.signalLate()
		}
		return l, nil
	case supervisor.Launching, supervisor.AwaitingDescription, supervisor.ChoosingConf:
		return l, nil
	case supervisor.Reaching:
		return l.begin()
	}
	return l.ask()
}

// doubt asks what a daemon that serves has complained of, until it answers.
func (l State) doubt() (State, []Action) {
	if l.Phase != supervisor.Ready || l.Activity != supervisor.Idle || !l.Reaches {
		return l, nil
	}
	l.Activity, l.Tries = supervisor.Doubting, 0
	return l.ask()
}

// measured: the pod was looked at again. Only the time that it grants counts.
func (l State) measured(e node.Measured) (State, []Action) {
	l.Node = l.WithGrace(e)
	if l.Phase == supervisor.Stopping {
		l.Node = l.WithFault(e)
		return l.hasten(e.At)
	}
	if e.Err != nil {
		l.Fault = e.Err.Error()
		return l, nil
	}
	l.Fault = ""
	l.Allocation = &nodesize.Allocation{Resources: e.Resources, Size: e.Size, Traits: e.Traits.After(l.Traits), Grace: e.Grace}
	return l, nil
}

// hasten brings the deadlines of the way down forward.
func (l State) hasten(now time.Time) (State, []Action) {
	if l.Hosts {
		return l.with(sessions.Hasten(l.Supervisor, l.Grace, now))
	}
	return l.with(l.Hasten(l.Grace, now))
}
