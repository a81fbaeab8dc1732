package supervisor

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// Settle is what a daemon is left in peace for after its READY, while it
// registers.
const Settle = 10 * time.Millisecond

// Wait arms the timer; any earlier one is stale from now on.
func (s State) Wait(d time.Duration) (State, []any) {
	s.Timer++
	return s, []any{Arm{s.Timer, max(d, time.Millisecond)}}
}

// Again waits before the next question, longer from try to try, up to longest.
func (s State) Again(reason string, longest time.Duration) (State, []any) {
	s.Reason = reason
	s.Tries++
	return s.Wait(backoff.Grow(backoff.FirstTry, s.Tries-1, longest))
}

// AskService asks whether the service answers; the answer to any earlier question is stale.
func (s State) AskService() (State, []any) {
	s.Question++
	return s, []any{Confirm{s.Question}}
}

// TryToReach asks whether what the daemon needs can be reached.
func (s State) TryToReach() (State, []any) {
	s.Question++
	return s, []any{Reach{s.Question}}
}

// IsOver says whether nothing is changed any more.
func (s State) IsOver() bool { return s.Phase == Stopping || s.Phase == Exited }

// Hasten brings the deadlines of the way down forward where less time is granted than they were made for. It
// schedules those stages anew that are still to come. A daemon that stops already is killed earlier, whatever its role.
func (s State) Hasten(grace nodesize.Grace, now time.Time, stages ...deadlines.Stage) (State, []any) {
	before := s.Deadlines
	if s.TimeLeft = s.TimeLeft.Hasten(grace, now); s.Deadlines == before {
		return s, nil
	}
	elapsed := now.Sub(s.StoppedAt)
	var actions []any
	if s.Bound {
		actions = s.ToCome(elapsed, stages...)
	}
	if s.Activity == Ending || s.Activity == Converting {
		actions = append(actions, deadlines.Schedule{Stage: deadlines.End, After: max(s.Deadlines.End-elapsed, 0)})
	}
	return s, actions
}
