package node

import (
	"fmt"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// Step takes an event. It returns the next states of slurmd and of its node, and what is to be done.
func Step(s supervisor.State, n State, e any) (supervisor.State, State, []any) {
	l, actions := machine{s, n}.take(e)
	return l.Supervisor, l.State, actions
}

// take has the phase that the container is in take an event. What slurmd does means the same in all
// of them.
func (l machine) take(e any) (machine, []any) {
	switch e := e.(type) {
	case Started:
		return l.takeStarted(), nil
	case Announced:
		return l.takeReady()
	case supervisor.MainChanged:
		return l.takeSuccessor()
	case supervisor.MainHung:
		return l.replaceHung(e)
	}
	switch l.Phase {
	case supervisor.Exited:
		return l, nil
	case supervisor.Stopping:
		return l.whileStopping(e)
	}
	return l.beforeStopping(e)
}

// beforeStopping takes the events of a node that is to serve.
func (l machine) beforeStopping(e any) (machine, []any) {
	switch e := e.(type) {
	case Answered:
		return l.answer(e)
	case Done:
		return l.changed(e)
	case Measured:
		return l.measure(e)
	case StepsEnded:
		return l.lookAgain()
	case supervisor.TimerFired:
		return l.fired(e)
	case supervisor.Troubled:
		return l.doubt()
	case ControllerLost:
		return l.recheckClaims()
	case LaunchRefused:
		return l.expectDrain()
	case LostJobsFound:
		return l.reconcile(e)
	case StepsCounted, deadlines.DeadlinePassed:
		return l, nil
	}
	panic(fmt.Sprintf("Step: no such event: %T", e))
}

// whileStopping takes the events of a node that is taken out of service.
func (l machine) whileStopping(e any) (machine, []any) {
	switch e := e.(type) {
	case supervisor.Terminated:
		return l.terminate(e)
	case Answered:
		return l.answerStopping(e)
	case Done:
		return l.changedStopping(e)
	case Measured:
		return l.hastenBy(e)
	case deadlines.DeadlineSet:
		return l.hasten(e.At)
	case StepsEnded:
		return l.lookAgain()
	case StepsCounted:
		return l.fewer(e)
	case supervisor.TimerFired:
		return l.firedStopping(e)
	case deadlines.DeadlinePassed:
		return l.due(e)
	case supervisor.Troubled, ControllerLost, LaunchRefused, LostJobsFound:
		return l, nil
	}
	panic(fmt.Sprintf("Step: no such event: %T", e))
}

// fired: what was waited for has not come in time, or a pause is over.
func (l machine) fired(e supervisor.TimerFired) (machine, []any) {
	l.pace.rested = l.pace.resting == e.Number
	switch l.Activity {
	case supervisor.Pausing:
		l.Starts++
		return l.begin()
	case supervisor.Replacing:
		return l.with(l.OverdueReplaced())
	case supervisor.Idle:
		return l.findLost()
	case supervisor.Launching, supervisor.AwaitingDescription:
		return l, nil
	case supervisor.Reaching:
		return l.begin()
	}
	return l.ask()
}

// takeStarted: a slurmd lives, of whose record nothing is known yet.
func (l machine) takeStarted() machine {
	l.Seen, l.tookOver, l.awaited, l.wasUp, l.settled = false, false, false, false, nodesize.Traits{}
	l.listed = l.listed || l.WasReady
	return l
}

// takeReady: it is READY.
func (l machine) takeReady() (machine, []any) {
	l.listed = true
	if l.Phase == supervisor.Stopping {
		l.Activity = supervisor.LookingAtRecord
	}
	return l.wait(supervisor.Settle)
}

// registerTime is what a successor has to register before its record is looked at. All nodes
// take over at once.
const registerTime = time.Second

// takeSuccessor: a reconfigure has put another slurmd in Main's place.
func (l machine) takeSuccessor() (machine, []any) {
	l.tookOver = l.registered() && l.Phase != supervisor.Stopping
	l.Seen, l.listed, l.awaited, l.wasUp = false, true, false, false
	switch {
	case l.Activity == supervisor.Ending && l.Bound && l.Left == "" && l.Stage < deadlines.Stop:
		// It registers, and makes the record anew that was deleted.
		l.Activity, l.Tries = supervisor.LookingAtRecord, 0
		return l.wait(supervisor.Settle)
	case l.Activity == supervisor.Ending:
		if l.Left == "" {
			l.Left = "slurmd has handed over as the time was over, and its successor may have registered"
		}
		return l, []any{supervisor.SignalMain{Signal: supervisor.SigTerm}}
	case l.Activity == supervisor.Replacing: // the successor has its own time to stop
		return l.with(l.StopReplaced())
	case l.Phase != supervisor.Ready:
		return l, nil
	}
	l.Phase, l.Activity, l.Tries = supervisor.Reloading, supervisor.Confirming, 0
	if l.tookOver {
		l.Question++ // the answer to an earlier one would be about its predecessor
		return l.wait(registerTime)
	}
	return l.ask()
}
