package node

import (
	"errors"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// answerStopping takes slurmctld's word on the way down.
func (m machine) answerStopping(e Answered) (machine, []any) {
	if e.Number != m.Question {
		return m, nil
	}
	m = m.note(e)
	if e.Err != nil && !m.Unanswered {
		m.Tries = 0 // those before had answers
	}
	m.Unanswered = e.Err != nil
	switch m.Activity {
	case supervisor.Reaching:
		return m.reached(e)
	case supervisor.Launching:
		return m.notReady(e)
	}
	return m.actOnRecord(e)
}

// changedStopping takes the outcome of a change on the way down.
func (m machine) changedStopping(e Done) (machine, []any) {
	switch {
	case e.Number != m.Question:
		return m, nil
	case m.Activity == supervisor.StartingSackd:
		return m.sackdStarted(e)
	}
	m.Unanswered = errors.Is(e.Err, slurm.ErrUnreachable)
	return m.changeDone(e)
}

// firedStopping: what was waited for on the way down has not come in time.
func (m machine) firedStopping(e supervisor.TimerFired) (machine, []any) {
	m.pace.rested = m.pace.resting == e.Number
	switch {
	case m.Activity == supervisor.Ending:
		return m.with(m.Overdue())
	case m.Activity == supervisor.Pausing:
		return m.relaunch()
	case m.Activity == supervisor.Replacing:
		return m.overdueReplaced()
	case m.Activity == supervisor.Launching, m.Activity == supervisor.Reaching:
		return m.tryToReach()
	case m.Activity == supervisor.Idle, m.Activity == supervisor.AwaitingDescription:
		return m, nil
	case m.Activity == supervisor.Finishing && m.running > 0:
		return m.recountSteps()
	case m.Activity == supervisor.Finishing:
		m.keepsIt = false
		m.Activity = supervisor.LookingAtRecord // and no step that ends meanwhile cuts the question short
	}
	return m.ask()
}

// end stops slurmd. left is what could not be done before, empty for nothing.
func (m machine) end(left string) (machine, []any) {
	if m.Activity != supervisor.Ending && (m.Main != 0 || m.StartAsked) && m.Killed && !m.MayStartSackd() {
		return m.with(m.GiveUp(left))
	}
	var steps []any
	if m.Acted >= deadlines.Fail {
		// slurmd waits for the steps of jobs that slurmctld has failed, and a
		// slurmstepd may go on calling an srun that is gone (24.11.5).
		steps = []any{KillSteps{}}
	}
	return m.with(m.End(left, m.stopLimit(), steps...))
}

// stopLimit is how long slurmd gets from SIGTERM to SIGKILL. Before jobs are
// requeued it is certain to have more: on a machine that stops many pods at once,
// slurmd may need it.
func (m machine) stopLimit() time.Duration {
	if m.Stage < deadlines.Requeue {
		return m.Deadlines.End - m.Deadlines.Requeue
	}
	return m.Deadlines.End - m.Deadlines.Stop
}

// stages are those of the way down, in the order in which they are scheduled.
func (m machine) stages() []deadlines.Stage {
	all := []deadlines.Stage{deadlines.Requeue, deadlines.Kill, deadlines.Fail, deadlines.Leave, deadlines.Stop}
	if m.Signals {
		all = append(all, deadlines.Signal)
	}
	return all
}

// WithGrace takes the time to end that the pod's annotations grant now. What cannot
// be used changes nothing.
func (s State) WithGrace(e Measured) State {
	next := *s.Allocation
	next.Grace = e.Grace
	if e.Err != nil {
		next.Grace = e.Grace.Or(s.Grace)
	}
	s.Allocation = &next
	return s
}

// WithFault keeps what is wrong with the annotations. On the way down only the time that is granted still counts.
func (s State) WithFault(e Measured) State {
	s.Fault = ""
	if bad, is := errors.AsType[nodesize.PodInfoError](e.Err); is {
		s.Fault = bad.Error()
	}
	return s
}

func (m machine) hastenBy(e Measured) (machine, []any) {
	m.State = m.WithGrace(e).WithFault(e)
	return m.hasten(e.At)
}

// hasten brings the deadlines of the way down forward. A slurmd that stops may hand over, and
// begin anew.
func (m machine) hasten(now time.Time) (machine, []any) {
	return m.with(m.Hasten(m.Grace, now, m.stages()...))
}

// NothingLost says why a slurmd that was asked to end has ended in order, whatever its status says: it has hung or
// crashed, and slurmctld counts on it no more. It is empty otherwise.
func NothingLost(s supervisor.State, n State, e supervisor.MainExited) string {
	m := machine{s, n}
	switch {
	case n.hung:
		return "slurmd has hung while it stopped, and nothing was lost"
	case m.crashed(e):
		return "slurmd has crashed while it stopped, and nothing was lost: " + e.What
	}
	return ""
}

// crashed: a signal has ended a slurmd that stops, and slurmctld has no record of the node any more. One
// that was killed because it did not stop is none of these.
func (m machine) crashed(e supervisor.MainExited) bool {
	const byKill = supervisor.BySignal + 9
	return m.losesNothing() && e.Code > supervisor.BySignal && e.Code != byKill
}

// losesNothing: slurmctld counts on a slurmd that stops no more.
func (m machine) losesNothing() bool { return m.WasReady && !m.InService() && m.Left == "" }
