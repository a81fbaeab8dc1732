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
func Step(l State, e Event) (State, []Action) {
	next, actions := l.take(e)
	return next, append(l.consequences(next), actions...)
}

// consequences are the actions that follow from a change of the state, whatever event
// has led to it.
func (l State) consequences(next State) []Action {
	if next.Registers && next.Phase == supervisor.Ready && l.Phase != supervisor.Ready {
		return []Action{node.CompareCluster{}}
	}
	return nil
}

// take has the machine take an event that it is for.
func (l State) take(e Event) (State, []Action) {
	if l.Phase == supervisor.Exited {
		return l, nil // nothing happens any more
	}
	switch e := e.(type) {
	case supervisor.MainStarted:
		return l.started(e)
	case supervisor.MainFailed:
		return l.failed(e)
	case supervisor.MainReady:
		return l.announced()
	case supervisor.MainChanged:
		return l.handedOver(e)
	case supervisor.MainExited:
		return l.ended(e)
	case supervisor.Begun:
		return l.begin()
	case supervisor.Terminated:
		return l.terminate(e)
	case supervisor.HungUp:
		return l.sendHUP()
	case supervisor.FilesChanged:
		return l.takeFiles(e)
	case supervisor.Outdated:
		return l.refetch()
	case supervisor.ControllerMoved:
		return l.reachAnew()
	case DatabaseAway:
		return l.takeAway()
	case StateHeld:
		return l.heldUp(e)
	case sessions.SessionsOver:
		if l.Phase == supervisor.Stopping {
			return l.end("")
		}
		return l, nil
	case conf.Revision, conf.Checked, conf.LaunchesOver, conf.PlaceEnded, conf.ReconfigureEnded, conf.NodesAsked, conf.ReloadTimerFired:
		return l.configure(e)
	case supervisor.TimerFired:
		if e.Number != l.Timer {
			return l, nil
		}
	case deadlines.DeadlinePassed:
		if e.Stage == deadlines.End {
			return l.endDue()
		}
	case deadlines.DeadlineSet:
		l.TimeLeft = l.Order(e)
		if l.Phase != supervisor.Stopping {
			return l, nil
		}
	}
	if l.Registers {
		return l.asNode(e)
	}
	return l.withoutRecord(e)
}

// asNode has the node's machine take an event.
func (l State) asNode(e Event) (State, []Action) {
	s, n, actions := node.Step(l.Supervisor, l.Node, e)
	l.Supervisor, l.Node = s, n
	return l, actions
}

// with takes the supervisor's next state.
func (l State) with(s supervisor.State, actions []Action) (State, []Action) {
	l.Supervisor = s
	return l, actions
}

// withoutRecord takes the events of a role that has no node.
func (l State) withoutRecord(e Event) (State, []Action) {
	stopping := l.Phase == supervisor.Stopping
	switch e := e.(type) {
	case node.Answered:
		return l.answered(e)
	case supervisor.TimerFired:
		if stopping {
			return l.firedStopping()
		}
		return l.fired()
	case node.Measured:
		return l.measured(e)
	case deadlines.DeadlineSet:
		return l.hasten(e.At)
	case supervisor.Troubled:
		return l.doubt()
	case deadlines.DeadlinePassed:
		if l.Hosts && stopping {
			return l.with(sessions.Due(l.Supervisor, e.Stage))
		}
		return l, nil
	case node.Done, node.StepsEnded, node.StepsCounted, supervisor.MainHung, node.ControllerLost, node.LaunchRefused, node.LostJobsFound:
		return l, nil
	}
	panic(fmt.Sprintf("Step: no such event: %T", e))
}

// terminate begins the orderly stop. A second signal shortens nothing, but for an impatient one:
// SIGINT twice, in a terminal.
func (l State) terminate(e supervisor.Terminated) (State, []Action) {
	if l.Phase == supervisor.Stopping {
		switch {
		case !e.Again:
			return l, nil
		case l.Registers:
			return l.asNode(e)
		}
		return l.end("SIGINT received twice")
	}
	l.Phase, l.Reason, l.StoppedAt = supervisor.Stopping, e.Signal+" received", e.At
	if l.Grace.Outlived(e.At) {
		l.Reason += "; the deadline of " + l.Grace.Deadline.Source + " was over before, and counts for nothing"
	}
	l.TimeLeft = l.TimeLeft.Hasten(l.Grace, e.At)
	switch {
	case l.Hosts:
		return l.with(sessions.Await(l.Supervisor))
	case l.converting() && l.Activity != supervisor.Replacing:
		return l.awaitListening()
	case l.Registers:
		return l.asNode(e)
	}
	return l.end("")
}

// ended: a process that was main has ended. Only the present main counts.
func (l State) ended(e supervisor.MainExited) (State, []Action) {
	if e.PID != l.Main || l.Main == 0 {
		return l, nil
	}
	l.Main = 0
	l.Question++ // what was asked about this daemon is stale
	switch {
	case l.Activity == supervisor.Ending:
		return l.endedStopping(e)
	case l.Activity == supervisor.Converting:
		return l.with(l.LeaveWith(e.Code))
	case l.mayTryOther():
		return l.tryOther(e.What)
	case l.mayRevive(e):
		return l.revive(e)
	case !l.Restarts && l.Activity == supervisor.Replacing: // for a reason of the agent's
		return l.with(l.LeaveWith(exitcode.Failure))
	case !l.Restarts:
		l.Reason = e.What
		return l.with(l.LeaveWith(e.Code))
	case l.Activity == supervisor.Replacing && l.Phase == supervisor.Stopping:
		return l.with(l.Relaunch())
	case l.Activity == supervisor.Replacing && l.Registers:
		return l.with(l.Launch())
	case l.Activity == supervisor.Replacing:
		l.Phase = supervisor.Starting
		return l.begin()
	}
	if e.Uptime >= backoff.Steady {
		l.Failures = 0
	}
	return l.with(l.Pause(e.What))
}

// endedByTerm is the end of a daemon that was too young to catch SIGTERM: as
// much in order as the end of one that caught it.
const endedByTerm = 128 + 15

// endedByUSR1 is the status of a slurmdbd that gets SIGTERM just after it has begun to listen: it wakes its threads by
// SIGUSR1, which it does not catch yet (26.05.5). Nothing is lost.
const endedByUSR1 = 128 + 10

// endedStopping: a daemon that was asked to end has ended.
func (l State) endedStopping(e supervisor.MainExited) (State, []Action) {
	code := e.Code
	switch {
	case code == endedByTerm || l.Converts && code == endedByUSR1:
		code = exitcode.OK
	case l.Registers:
		if why := node.NothingLost(l.Supervisor, l.Node, e); why != "" {
			l.Reason, code = why, exitcode.OK
		}
	}
	return l.with(l.LeaveWith(code))
}
