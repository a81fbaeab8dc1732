package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// TestPace: a first change comes at once, repeated ones lie apart, and what is new is a first one.
func TestPace(t *testing.T) {
	resumes := func(l State) (State, []Action) { return play(l, node.Answered{Node: record(ourDrain)}) }
	l, actions := resumes(isConfirming())
	require.Equal(t, []Action{node.Change{Number: l.Question, Verb: node.ResumeNode}}, actions)
	l, actions = play(l, node.Done{})
	require.IsType(t, node.AskNode{}, actions[0], "what follows from the first one comes at once, too")
	var pauses []time.Duration
	for range 7 {
		l, actions = resumes(l)
		for len(actions) == 1 && isArm(actions[0]) { // the pause is over, and nothing has changed
			pauses = append(pauses, actions[0].(supervisor.Arm).After)
			l, _ = play(l, supervisor.TimerFired{})
			l, actions = resumes(l)
		}
		require.Equal(t, []Action{node.Change{Number: l.Question, Verb: node.ResumeNode}}, actions)
		l, actions = play(l, node.Done{})
		pauses = append(pauses, actions[0].(supervisor.Arm).After)
		l, _ = play(l, supervisor.TimerFired{})
	}
	first := backoff.FirstTry
	require.Equal(t, []time.Duration{first, 4 * first, 16 * first, 64 * first, 256 * first, 1024 * first, backoff.LastQuiet, backoff.LastQuiet}, pauses)

	ready, _ := play(l, node.Answered{Node: record()})
	require.Equal(t, supervisor.Ready, ready.Phase)
	for name, change := range map[string]Event{
		"SIGTERM": supervisor.Terminated{Signal: "SIGTERM"}, "another size": node.Measured{Allocation: nodesize.Allocation{Size: nodesize.Size{CPUs: 9}}},
	} {
		l.Phase = supervisor.Reloading // a size counts at once in a phase that serves
		l, _ := play(l, change)
		require.False(t, l.IsPaced(), name)
	}
	require.False(t, ready.IsPaced())
}

func isArm(a Action) bool { _, is := a.(supervisor.Arm); return is }

// isConfirming is a node that has asked for its record.
func isConfirming() State {
	l, _ := play(slurmdLife(), registered...)
	return l
}

// TestPaceDeadline: a drain that somebody lifts again and again keeps no deadline from its work.
func TestPaceDeadline(t *testing.T) {
	lifted := node.Answered{Node: record(busy), Steps: 1}
	l, _ := play(isTerminated(), lifted, node.Done{}, lifted, supervisor.TimerFired{}, lifted)
	require.Equal(t, supervisor.Draining, l.Activity)
	l, actions := play(l, node.Done{})
	require.Equal(t, []Action{supervisor.Arm{Number: l.Timer, After: 4 * backoff.FirstTry}}, actions)
	for _, c := range []struct {
		stage deadlines.Stage
		verb  node.Verb
	}{{deadlines.Requeue, node.RequeueJobs}, {deadlines.Fail, node.FailNode}} {
		l, actions = play(l, deadlines.DeadlinePassed{Stage: c.stage})
		require.IsType(t, node.AskJobs{}, actions[0])
		l, actions = play(l, lifted)
		require.Equal(t, []Action{node.Change{Number: l.Question, Verb: node.DrainNode, Reason: reasons.Terminating}}, actions, "at once")
		l, actions = play(l, node.Done{}, lifted)
		require.Equal(t, c.verb, actions[0].(node.Change).Verb)
		l, _ = play(l, node.Done{})
	}
}
