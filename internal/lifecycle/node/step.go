package node

import (
	"fmt"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// Step takes an event. It returns the next states of slurmd and of its node, and what is to be done.
func Step(s supervisor.State, n State, e any) (supervisor.State, State, []any) {
	m, actions := machine{s, n}.take(e)
	return m.Supervisor, m.State, actions
}

// take has the phase that the container is in take an event. What slurmd does means the same in all
// of them.
func (m machine) take(e any) (machine, []any) {
	switch e := e.(type) {
	case Started:
		return m.takeStarted(), nil
	case Announced:
		return m.takeReady()
	case supervisor.MainChanged:
		return m.takeSuccessor()
	case supervisor.MainHung:
		return m.replaceHung(e)
	}
	switch m.Phase {
	case supervisor.Exited:
		return m, nil
	case supervisor.Stopping:
		return m.whileStopping(e)
	}
	return m.beforeStopping(e)
}

// beforeStopping takes the events of a node that is to serve.
func (m machine) beforeStopping(e any) (machine, []any) {
	switch e := e.(type) {
	case Answered:
		return m.answer(e)
	case Done:
		return m.changed(e)
	case Measured:
		return m.measure(e)
	case StepsEnded:
		return m.lookAgain()
	case supervisor.TimerFired:
		return m.fired(e)
	case supervisor.Troubled:
		return m.doubt()
	case SlurmctldLost:
		return m.recheckClaims()
	case LaunchRefused:
		return m.expectDrain()
	case LostJobsFound:
		return m.reconcile(e)
	case StepsCounted, deadlines.DeadlinePassed:
		return m, nil
	}
	panic(fmt.Sprintf("Step: no such event: %T", e))
}

// whileStopping takes the events of a node that is taken out of service.
func (m machine) whileStopping(e any) (machine, []any) {
	switch e := e.(type) {
	case supervisor.Terminated:
		return m.terminate(e)
	case Answered:
		return m.answerStopping(e)
	case Done:
		return m.changedStopping(e)
	case Measured:
		return m.hastenBy(e)
	case deadlines.DeadlineSet:
		return m.hasten(e.At)
	case StepsEnded:
		return m.lookAgain()
	case StepsCounted:
		return m.fewer(e)
	case supervisor.TimerFired:
		return m.firedStopping(e)
	case deadlines.DeadlinePassed:
		return m.due(e)
	case supervisor.Troubled, SlurmctldLost, LaunchRefused, LostJobsFound:
		return m, nil
	}
	panic(fmt.Sprintf("Step: no such event: %T", e))
}

// fired: what was waited for has not come in time, or a pause is over.
func (m machine) fired(e supervisor.TimerFired) (machine, []any) {
	m.pace.rested = m.pace.resting == e.Number
	switch m.Activity {
	case supervisor.Pausing:
		m.Starts++
		return m.begin()
	case supervisor.Replacing:
		return m.with(m.OverdueReplaced())
	case supervisor.Idle:
		return m.findLost()
	case supervisor.Launching, supervisor.AwaitingDescription:
		return m, nil
	case supervisor.Reaching:
		return m.begin()
	}
	return m.ask()
}

// takeStarted: a slurmd lives, of whose record nothing is known yet.
func (m machine) takeStarted() machine {
	m.Seen, m.tookOver, m.awaited, m.wasUp, m.settled = false, false, false, false, nodesize.Traits{}
	m.listed = m.listed || m.WasReady
	return m
}

// takeReady: it is READY.
func (m machine) takeReady() (machine, []any) {
	m.listed = true
	if m.Phase == supervisor.Stopping {
		m.Activity = supervisor.LookingAtRecord
	}
	return m.wait(supervisor.Settle)
}

// registerTime is what a successor has to register before its record is looked at. All nodes
// take over at once.
const registerTime = time.Second

// takeSuccessor: a reconfigure has put another slurmd in Main's place.
func (m machine) takeSuccessor() (machine, []any) {
	m.tookOver = m.registered() && m.Phase != supervisor.Stopping
	m.Seen, m.listed, m.awaited, m.wasUp = false, true, false, false
	switch {
	case m.Activity == supervisor.Ending && m.Bound && m.Left == "" && m.Stage < deadlines.Stop:
		// It registers, and makes the record anew that was deleted.
		m.Activity, m.Tries = supervisor.LookingAtRecord, 0
		return m.wait(supervisor.Settle)
	case m.Activity == supervisor.Ending:
		if m.Left == "" {
			m.Left = "slurmd has handed over as the time was over, and its successor may have registered"
		}
		return m, []any{supervisor.SignalMain{Signal: supervisor.SigTerm}}
	case m.Activity == supervisor.Replacing: // the successor has its own time to stop
		return m.with(m.StopReplaced())
	case m.Phase != supervisor.Ready:
		return m, nil
	}
	m.Phase, m.Activity, m.Tries = supervisor.Reloading, supervisor.Confirming, 0
	if m.tookOver {
		m.Question++ // the answer to an earlier one would be about its predecessor
		return m.wait(registerTime)
	}
	return m.ask()
}
