package node

import (
	"errors"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// answerStopping takes slurmctld's word on the way down.
func (l machine) answerStopping(e Answered) (machine, []any) {
	if e.Number != l.Question {
		return l, nil
	}
	l = l.note(e)
	if e.Err != nil && !l.Unanswered {
		l.Tries = 0 // those before had answers
	}
	l.Unanswered = e.Err != nil
	switch l.Activity {
	case supervisor.Reaching:
		return l.reached(e)
	case supervisor.Launching:
		return l.notReady(e)
	}
	return l.actOnRecord(e)
}

// changedStopping takes the outcome of a change on the way down.
func (l machine) changedStopping(e Done) (machine, []any) {
	switch {
	case e.Number != l.Question:
		return l, nil
	case l.Activity == supervisor.StartingSackd:
		return l.sackdStarted(e)
	}
	l.Unanswered = errors.Is(e.Err, slurm.ErrUnreachable)
	return l.changeDone(e)
}

// firedStopping: what was waited for on the way down has not come in time.
func (l machine) firedStopping(e supervisor.TimerFired) (machine, []any) {
	l.pace.rested = l.pace.resting == e.Number
	switch {
	case l.Activity == supervisor.Ending:
		return l.with(l.Overdue())
	case l.Activity == supervisor.Pausing:
		return l.relaunch()
	case l.Activity == supervisor.Replacing:
		return l.overdueReplaced()
	case l.Activity == supervisor.Launching, l.Activity == supervisor.Reaching:
		return l.tryToReach()
	case l.Activity == supervisor.Idle, l.Activity == supervisor.AwaitingDescription:
		return l, nil
	case l.Activity == supervisor.Finishing && l.running > 0:
		return l.recountSteps()
	case l.Activity == supervisor.Finishing:
		l.keepsIt = false
		l.Activity = supervisor.LookingAtRecord // and no step that ends meanwhile cuts the question short
	}
	return l.ask()
}

// end stops slurmd. left is what could not be done before, empty for nothing.
func (l machine) end(left string) (machine, []any) {
	if l.Activity != supervisor.Ending && (l.Main != 0 || l.StartAsked) && l.Killed && !l.MayStartSackd() {
		return l.with(l.GiveUp(left))
	}
	var steps []any
	if l.Acted >= deadlines.Fail {
		// slurmd waits for the steps of jobs that slurmctld has failed, and a
		// slurmstepd may go on calling an srun that is gone (24.11.5).
		steps = []any{KillSteps{}}
	}
	return l.with(l.End(left, l.stopLimit(), steps...))
}

// stopLimit is how long slurmd gets from SIGTERM to SIGKILL. Before jobs are
// requeued it is certain to have more: on a machine that stops many pods at once,
// slurmd may need it.
func (l machine) stopLimit() time.Duration {
	if l.Stage < deadlines.Requeue {
		return l.Deadlines.End - l.Deadlines.Requeue
	}
	return l.Deadlines.End - l.Deadlines.Stop
}

// stages are those of the way down, in the order in which they are scheduled.
func (l machine) stages() []deadlines.Stage {
	all := []deadlines.Stage{deadlines.Requeue, deadlines.Kill, deadlines.Fail, deadlines.Leave, deadlines.Stop}
	if l.Signals {
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

func (l machine) hastenBy(e Measured) (machine, []any) {
	l.State = l.WithGrace(e).WithFault(e)
	return l.hasten(e.At)
}

// hasten brings the deadlines of the way down forward. A slurmd that stops may hand over, and
// begin anew.
func (l machine) hasten(now time.Time) (machine, []any) {
	return l.with(l.Hasten(l.Grace, now, l.stages()...))
}

// NothingLost says why a slurmd that was asked to end has ended in order, whatever its status says: it has hung or
// crashed, and slurmctld counts on it no more. It is empty otherwise.
func NothingLost(s supervisor.State, n State, e supervisor.MainExited) string {
	l := machine{s, n}
	switch {
	case n.hung:
		return "slurmd has hung while it stopped, and nothing was lost"
	case l.crashed(e):
		return "slurmd has crashed while it stopped, and nothing was lost: " + e.What
	}
	return ""
}

// crashed: a signal has ended a slurmd that stops, and slurmctld has no record of the node any more. One
// that was killed because it did not stop is none of these.
func (l machine) crashed(e supervisor.MainExited) bool {
	const byKill = supervisor.BySignal + 9
	return l.losesNothing() && e.Code > supervisor.BySignal && e.Code != byKill
}

// losesNothing: slurmctld counts on a slurmd that stops no more.
func (l machine) losesNothing() bool { return l.WasReady && !l.InService() && l.Left == "" }
