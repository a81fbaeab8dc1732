package lifecycle

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// TestBurying is when dead jobs are looked for: once, when slurmctld has seen this slurmd.
func TestBurying(t *testing.T) {
	heir, _ := play(slurmdLife(), registered...)
	heir.Inherits = true
	l, actions := play(heir, Answered{Node: record(busy, stale)})
	require.NotContains(t, actions, Change{Number: l.question, Verb: EndStaleJobs}, "slurmctld misses most of them when slurmd registers")
	l, _ = play(heir, Answered{Node: record()})
	require.Equal(t, Ready, l.Phase, "nothing runs here")
	for name, n := range map[string]*slurm.Node{"": record(busy), "another size": record(busy, bigger), "drained": record(busy, anAdmins)} {
		l, actions = play(heir, Answered{Node: n})
		require.Equal(t, []Action{Change{Number: l.question, Verb: EndStaleJobs}}, actions, name)
	}
	again, actions := play(l, Done{Err: slurm.ErrUnreachable}, TimerFired{}, Answered{Node: record(busy)})
	require.Equal(t, []Action{Change{Number: again.question, Verb: EndStaleJobs}}, actions)
	for _, err := range []error{nil, errors.New("no")} {
		l, actions = play(again, Done{Err: err})
		require.Equal(t, []Action{AskNode{Number: l.question}}, actions, "what slurmctld refuses keeps no node from its work")
		l, _ = play(l, Answered{Node: record(busy), Steps: 1})
		require.Equal(t, Ready, l.Phase)
	}
	dead := record(ourDrain, func(n *slurm.Node) { n.State[0] = "DOWN" })
	l, actions = play(again, Done{}, Answered{Node: dead})
	require.Equal(t, []Action{Change{Number: l.question, Verb: ResumeNode}}, actions, "set DOWN by this agent, or by one that died then")
}

func TestBuryingOnTheWayDown(t *testing.T) {
	heir := isTerminated()
	heir.Inherits = true
	l, actions := play(heir, Answered{Node: record(busy)})
	require.Equal(t, []Action{Change{Number: l.question, Verb: DrainNode, Reason: reasonTerminate}}, actions, "first of all")
	l, actions = play(l, Done{}, Answered{Node: record(busy, terminating)})
	require.Equal(t, []Action{Change{Number: l.question, Verb: EndStaleJobs}}, actions)
	again, _ := play(l, Done{Err: slurm.ErrUnreachable}, TimerFired{}, Answered{Node: record(busy, terminating)})
	require.Equal(t, EndingStaleJobs, again.Activity)
	l, actions = play(l, Done{})
	require.Equal(t, []Action{AskJobs{Number: l.question, Need: certain}}, actions)
	l, _ = play(l, Answered{Node: record(busy, terminating), Steps: 1})
	require.Equal(t, Finishing, l.Activity)
	l, _ = play(heir, DeadlinePassed{toRequeue}, Answered{Node: record(busy, terminating)})
	require.Equal(t, Requeueing, l.Activity, "all the same now")
}
