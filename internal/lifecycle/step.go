package lifecycle

import (
	"fmt"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/sessions"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// Event is something that happened in the world.
type Event = any

// Action is something to do in the world.
type Action = any

type (
	// DatabaseAway: slurmdbd has no connection to its database, and waits some seconds before its next try.
	DatabaseAway struct{}
	// StateHeld: another agent has what slurmctld has saved, and this one waits for its end.
	StateHeld struct{ Why string }
)

// Step is the agent's whole judgement: what happened goes in, the next state
// and what to do come out.
func Step(s State, e Event) (State, []Action) {
	next, actions := s.take(e)
	return next, append(s.consequences(next), actions...)
}

// consequences are the actions that follow from a change of the state, whatever event
// has led to it.
func (s State) consequences(next State) []Action {
	if next.Registers && next.Phase == supervisor.Ready && s.Phase != supervisor.Ready {
		return []Action{node.CompareCluster{}}
	}
	return nil
}

// take has the machine take an event that it is for.
func (s State) take(e Event) (State, []Action) {
	if s.Phase == supervisor.Exited {
		return s, nil // nothing happens any more
	}
	switch e := e.(type) {
	case supervisor.MainStarted:
		return s.started(e)
	case supervisor.MainFailed:
		return s.failed(e)
	case supervisor.MainReady:
		return s.announced()
	case supervisor.MainChanged:
		return s.handedOver(e)
	case supervisor.MainExited:
		return s.ended(e)
	case supervisor.Begun:
		return s.begin()
	case supervisor.Terminated:
		return s.terminate(e)
	case supervisor.HungUp:
		return s.sendHUP()
	case supervisor.FilesChanged:
		return s.takeFiles(e)
	case supervisor.Outdated:
		return s.refetch()
	case supervisor.SlurmctldMoved:
		return s.reachAnew()
	case DatabaseAway:
		return s.takeAway()
	case StateHeld:
		return s.waitForState(e)
	case sessions.SessionsOver:
		if s.Phase == supervisor.Stopping {
			return s.end("")
		}
		return s, nil
	case conf.Revision, conf.Checked, conf.LaunchesOver, conf.PlaceEnded, conf.ReconfigureEnded, conf.NodesAsked, conf.ReloadTimerFired:
		return s.configure(e)
	case supervisor.TimerFired:
		if e.Number != s.Timer {
			return s, nil
		}
	case deadlines.DeadlinePassed:
		if e.Stage == deadlines.End {
			return s.endDue()
		}
	case deadlines.DeadlineSet:
		s.TimeLeft = s.Order(e)
		if s.Phase != supervisor.Stopping {
			return s, nil
		}
	}
	if s.Registers {
		return s.asNode(e)
	}
	return s.withoutRecord(e)
}

// asNode has the node's machine take an event.
func (s State) asNode(e Event) (State, []Action) {
	var actions []Action
	s.Supervisor, s.Node, actions = node.Step(s.Supervisor, s.Node, e)
	return s, actions
}

// with takes the supervisor's next state.
func (s State) with(next supervisor.State, actions []Action) (State, []Action) {
	s.Supervisor = next
	return s, actions
}

// withoutRecord takes the events of a role that has no node.
func (s State) withoutRecord(e Event) (State, []Action) {
	stopping := s.Phase == supervisor.Stopping
	switch e := e.(type) {
	case node.Answered:
		return s.answered(e)
	case supervisor.TimerFired:
		if stopping {
			return s.firedStopping()
		}
		return s.fired()
	case node.Measured:
		return s.measured(e)
	case deadlines.DeadlineSet:
		return s.hasten(e.At)
	case supervisor.Troubled:
		return s.doubt()
	case deadlines.DeadlinePassed:
		if s.Hosts && stopping {
			return s.with(sessions.Due(s.Supervisor, e.Stage))
		}
		return s, nil
	case node.Done, node.StepsEnded, node.StepsCounted, supervisor.MainHung, node.SlurmctldLost, node.LaunchRefused, node.LostJobsFound:
		return s, nil
	}
	panic(fmt.Sprintf("Step: no such event: %T", e))
}

// terminate begins the orderly stop. A second signal shortens nothing, but for an impatient one:
// SIGINT twice, in a terminal.
func (s State) terminate(e supervisor.Terminated) (State, []Action) {
	if s.Phase == supervisor.Stopping {
		switch {
		case !e.Again:
			return s, nil
		case s.Registers:
			return s.asNode(e)
		}
		return s.end("SIGINT received twice")
	}
	s.Phase, s.Reason, s.StoppedAt = supervisor.Stopping, e.Signal+" received", e.At
	if s.Grace.Outlived(e.At) {
		s.Reason += "; the deadline of " + s.Grace.Deadline.Source + " was over before, and counts for nothing"
	}
	s.TimeLeft = s.TimeLeft.Hasten(s.Grace, e.At)
	switch {
	case s.Hosts:
		return s.with(sessions.Await(s.Supervisor))
	case s.converting() && s.Activity != supervisor.Replacing:
		return s.awaitListening()
	case s.Registers:
		return s.asNode(e)
	}
	return s.end("")
}

// ended: a process that was main has ended. Only the present main counts.
func (s State) ended(e supervisor.MainExited) (State, []Action) {
	if e.PID != s.Main || s.Main == 0 {
		return s, nil
	}
	s.Main = 0
	s.Question++ // what was asked about this daemon is stale
	switch {
	case s.Activity == supervisor.Ending:
		return s.endedStopping(e)
	case s.Activity == supervisor.Converting:
		return s.with(s.LeaveWith(e.Code))
	case s.mayTryOther():
		return s.tryOther(e.What)
	case s.mayRevive(e):
		return s.revive(e)
	case !s.Restarts && s.Activity == supervisor.Replacing: // for a reason of the agent's
		return s.with(s.LeaveWith(exitcode.Failure))
	case !s.Restarts:
		s.Reason = e.What
		return s.with(s.LeaveWith(e.Code))
	case s.Activity == supervisor.Replacing && s.Phase == supervisor.Stopping:
		return s.with(s.Relaunch())
	case s.Activity == supervisor.Replacing && s.Registers:
		return s.with(s.Launch())
	case s.Activity == supervisor.Replacing:
		s.Phase = supervisor.Starting
		return s.begin()
	}
	if e.Uptime >= backoff.Steady {
		s.Failures = 0
	}
	return s.with(s.Pause(e.What))
}

// endedByTerm is the end of a daemon that was too young to catch SIGTERM: as
// much in order as the end of one that caught it.
const endedByTerm = 128 + 15

// endedByUSR1 is the status of a slurmdbd that gets SIGTERM just after it has begun to listen: it wakes its threads by
// SIGUSR1, which it does not catch yet (26.05.5). Nothing is lost.
const endedByUSR1 = 128 + 10

// endedStopping: a daemon that was asked to end has ended.
func (s State) endedStopping(e supervisor.MainExited) (State, []Action) {
	code := e.Code
	switch {
	case code == endedByTerm || s.Converts && code == endedByUSR1:
		code = exitcode.OK
	case s.Registers:
		if why := node.NothingLost(s.Supervisor, s.Node, e); why != "" {
			s.Reason, code = why, exitcode.OK
		}
	}
	return s.with(s.LeaveWith(code))
}
