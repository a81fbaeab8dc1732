package lifecycle

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// terminating is a drain of our own on the way down; idle is no other state than at first.
func terminating(n *slurm.Node) { n.State, n.Reason = append(n.State, "DRAIN"), reasons.Terminating }

// isReady is a slurmd that serves; isTerminated one that was told to end, and has asked for its record.
func isReady() State {
	l, _ := play(slurmdLife(), append(registered, node.Answered{Node: record()})...)
	return l
}

func isTerminated() State {
	l, _ := play(isReady(), supervisor.Terminated{Signal: "SIGTERM"})
	return l
}

// TestLonely: a node without steps does not wait for a slurmctld that is gone, one with steps does.
func TestLonely(t *testing.T) {
	for steps, state := range []supervisor.Phase{supervisor.Exited, supervisor.Stopping} {
		l := isTerminated()
		for range 3 * node.TriesWithoutSteps {
			l, _ = play(l, node.Answered{Err: errors.New("no"), Steps: steps}, supervisor.TimerFired{})
		}
		l, _ = play(l, supervisor.MainExited{PID: 7})
		require.Equal(t, state, l.Phase)
	}
}

// TestSilenceAfterAnswers: silence counts from its beginning, however often slurmctld has answered before.
func TestSilenceAfterAnswers(t *testing.T) {
	ending := []slurm.Job{{ID: 5, State: []string{"COMPLETED", "COMPLETING"}}}
	l := isTerminated()
	for range 3 * node.TriesWithoutSteps {
		l, _ = play(l, node.Answered{Node: record(terminating), Elsewhere: ending}, supervisor.TimerFired{})
	}
	for range node.TriesWithoutSteps {
		require.Equal(t, supervisor.LookingAtRecord, l.Activity)
		l, _ = play(l, node.Answered{Err: errNo}, supervisor.TimerFired{})
	}
	l, _ = play(l, node.Answered{Err: errNo})
	require.Equal(t, supervisor.Ending, l.Activity)
}

// TestUnanswered: a pod that ends says whether slurmctld answers, before its time is over.
func TestUnanswered(t *testing.T) {
	asks := isTerminated()
	for _, c := range []struct {
		why        string
		state      State
		event      Event
		unanswered bool
	}{
		{"SIGTERM came just now", asks, supervisor.TimerFired{}, false},
		{"no answer", asks, node.Answered{Err: slurm.ErrUnreachable}, true},
		{"an answer after none", func() State {
			l, _ := play(asks, node.Answered{Err: slurm.ErrUnreachable}, supervisor.TimerFired{})
			return l
		}(), node.Answered{Node: record()}, false},
		{"a drain without an answer", func() State { l, _ := play(asks, node.Answered{Node: record(busy)}); return l }(), node.Done{Err: slurm.ErrUnreachable}, true},
		{"a drain that is refused", func() State { l, _ := play(asks, node.Answered{Node: record(busy)}); return l }(), node.Done{Err: errors.New("invalid")}, false},
	} {
		l, _ := play(c.state, c.event)
		require.Equal(t, c.unanswered, l.Unanswered, c.why)
	}
}

// TestLonelyWithoutAService: a question may take all the time that it has, as
// one to a name does that DNS does not know any more.
func TestLonelyWithoutAService(t *testing.T) {
	l, took := isTerminated(), time.Duration(0)
	for l.Activity == supervisor.LookingAtRecord && took < time.Hour {
		var actions []Action
		l, actions = play(l, node.Answered{Err: errNo, Late: true})
		took += node.QuestionLimit
		if pause, armed := actions[0].(supervisor.Arm); armed {
			took += pause.After
			l, _ = play(l, supervisor.TimerFired{})
		}
	}
	require.Equal(t, supervisor.Ending, l.Activity)
	require.InDelta(t, 75*time.Second, took, float64(15*time.Second))
}

// TestNoStepHere: nothing tells of the end of an allocation without a step, nor
// of that of an epilog, which is soon.
func TestNoStepHere(t *testing.T) {
	for state, pause := range map[string]time.Duration{"RUNNING": node.WatchedPause, "COMPLETING": backoff.LastTry} {
		l, actions := isTerminated(), []Action(nil)
		for range 3 * node.WatchedTries {
			l, _ = play(l, supervisor.TimerFired{})
			l, actions = play(l, node.Answered{Node: record(busy, terminating), Jobs: []slurm.Job{{ID: 5, State: []string{state}}}})
		}
		require.Equal(t, []Action{supervisor.Arm{Number: l.Timer, After: pause}}, actions, state)
	}
}

// TestIdleButNotSeen: a node without a step whose registration slurmctld has not been seen to take is
// looked at before its record is deleted.
func TestIdleButNotSeen(t *testing.T) {
	l := isReady()
	l.Seen = false
	l, actions := play(l, supervisor.Terminated{Signal: "SIGTERM", Idle: true})
	require.Contains(t, actions, node.AskJobs{Number: l.Question})
}
