package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// TestPace: a first change comes at once, repeated ones lie apart, and what is new is a first one.
func TestPace(t *testing.T) {
	resumes := func(l State) (State, []Action) { return play(l, Answered{Node: record(ourDrain)}) }
	l, actions := resumes(isConfirming())
	require.Equal(t, []Action{Change{Number: l.question, Verb: ResumeNode}}, actions)
	l, actions = play(l, Done{})
	require.IsType(t, AskNode{}, actions[0], "what follows from the first one comes at once, too")
	var pauses []time.Duration
	for range 7 {
		l, actions = resumes(l)
		for len(actions) == 1 && isArm(actions[0]) { // the pause is over, and nothing has changed
			pauses = append(pauses, actions[0].(Arm).After)
			l, _ = play(l, TimerFired{})
			l, actions = resumes(l)
		}
		require.Equal(t, []Action{Change{Number: l.question, Verb: ResumeNode}}, actions)
		l, actions = play(l, Done{})
		pauses = append(pauses, actions[0].(Arm).After)
		l, _ = play(l, TimerFired{})
	}
	first := backoff.FirstTry
	require.Equal(t, []time.Duration{first, 4 * first, 16 * first, 64 * first, 256 * first, 1024 * first, backoff.LastQuiet, backoff.LastQuiet}, pauses)

	ready, _ := play(l, Answered{Node: record()})
	require.Equal(t, Ready, ready.Phase)
	for name, change := range map[string]Event{
		"SIGTERM": Terminated{Signal: "SIGTERM"}, "another size": Measured{Allocation: nodesize.Allocation{Size: nodesize.Size{CPUs: 9}}},
	} {
		l.Phase = Reloading // a size counts at once in a phase that serves
		l, _ := play(l, change)
		require.Equal(t, pace{}, l.pace, name)
	}
	require.Equal(t, pace{}, ready.pace)
}

func isArm(a Action) bool { _, is := a.(Arm); return is }

// isConfirming is a node that has asked for its record.
func isConfirming() State {
	l, _ := play(slurmdLife(), registered...)
	return l
}

// TestPaceDeadline: a drain that somebody lifts again and again keeps no deadline from its work.
func TestPaceDeadline(t *testing.T) {
	lifted := Answered{Node: record(busy), Steps: 1}
	l, _ := play(isTerminated(), lifted, Done{}, lifted, TimerFired{}, lifted)
	require.Equal(t, Draining, l.Activity)
	l, actions := play(l, Done{})
	require.Equal(t, []Action{Arm{l.timer, 4 * backoff.FirstTry}}, actions)
	for _, c := range []struct {
		stage Stage
		verb  Verb
	}{{toRequeue, RequeueJobs}, {toFail, FailNode}} {
		l, actions = play(l, DeadlinePassed{c.stage})
		require.IsType(t, AskJobs{}, actions[0])
		l, actions = play(l, lifted)
		require.Equal(t, []Action{Change{Number: l.question, Verb: DrainNode, Reason: reasons.Terminating}}, actions, "at once")
		l, actions = play(l, Done{}, lifted)
		require.Equal(t, c.verb, actions[0].(Change).Verb)
		l, _ = play(l, Done{})
	}
}
