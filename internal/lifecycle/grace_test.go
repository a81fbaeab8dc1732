package lifecycle

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/nodesize"
)

// stoppingNode is a node on its way down for an hour of a day, with a job.
func stoppingNode(t *testing.T) State {
	t.Helper()
	l := isReady()
	l.Deadlines = NewDeadlines(24*time.Hour, 0)
	l, _ = play(l, Terminated{Signal: "SIGTERM", At: epoch})
	l, _ = play(l, Answered{Number: l.question, Node: record(busy, ourDrain), Steps: 1})
	require.Equal(t, Finishing, l.Activity)
	return l
}

func annotated(at time.Time, deadline time.Time) Measured {
	return Measured{Allocation: nodesize.Allocation{Size: small, Grace: nodesize.Grace{Deadline: cgroup.Bound[time.Time]{Value: deadline, Source: "annotations"}}}, At: at}
}

func TestHasten(t *testing.T) {
	now := epoch.Add(time.Hour)
	l, actions := play(stoppingNode(t), annotated(now, now.Add(30*time.Second)))
	const ms = time.Millisecond
	require.Equal(t, []Action{
		Schedule{toRequeue, 14000 * ms}, Schedule{toKill, 17750 * ms}, Schedule{toFail, 21500 * ms}, Schedule{toLeave, 23375 * ms}, Schedule{toStop, 25250 * ms},
	}, actions)
	require.Equal(t, "annotations", l.HastenedBy)

	l, actions = play(l, annotated(now.Add(time.Second), now.Add(30*time.Second)), annotated(now.Add(time.Second), now.Add(time.Hour)), Measured{At: now.Add(time.Second)})
	require.Empty(t, actions, "nothing is put off")

	l, actions = play(l, DeadlinePassed{toRequeue}, annotated(now.Add(15*time.Second), now.Add(20*time.Second)))
	require.NotContains(t, actions, Schedule{toRequeue, 0}, "once is enough")
	require.Contains(t, actions, Schedule{toFail, 3125 * ms})
	stage, question := l.stage, l.question
	l, actions = play(l, DeadlinePassed{toRequeue})
	require.Empty(t, actions, "the one that was brought forward fires, too")
	require.Equal(t, []any{stage, question}, []any{l.stage, l.question})
}

func TestHastenByHand(t *testing.T) {
	now := epoch.Add(time.Hour)
	l, actions := play(stoppingNode(t), DeadlineSet{now, now.Add(30 * time.Second)})
	require.Contains(t, actions, Schedule{toRequeue, 14 * time.Second})
	require.Equal(t, "slurmlet deadline", l.HastenedBy)
	_, actions = play(l, DeadlineSet{now, now.Add(time.Hour)}, annotated(now, now.Add(time.Hour)))
	require.Empty(t, actions, "the earliest counts")

	l, _ = play(isReady(), DeadlineSet{epoch, epoch.Add(2 * time.Second)}, Terminated{Signal: "SIGTERM", At: epoch})
	require.Equal(t, NewDeadlines(2*time.Second, 0), l.Deadlines, "before SIGTERM")
}

// TestHastenFaults: what cannot be used changes nothing, and is told.
func TestHastenFaults(t *testing.T) {
	now := epoch.Add(time.Hour)
	bad := Measured{At: now, Err: nodesize.PodInfoError{Err: errors.New("annotations: no")}}
	l, actions := play(stoppingNode(t), bad)
	require.Empty(t, actions)
	require.Equal(t, "annotations: no", l.Fault)

	l = isReady()
	l, _ = play(l, annotated(epoch, epoch.Add(4*time.Second)), bad, Terminated{Signal: "SIGTERM", At: epoch})
	require.Equal(t, NewDeadlines(4*time.Second, 0), l.Deadlines, "the last good one stays")

	l, _ = play(isReady(), annotated(epoch, epoch.Add(-time.Minute)), Terminated{Signal: "SIGTERM", At: epoch})
	require.Equal(t, NewDeadlines(30*time.Second, 0), l.Deadlines)
	require.Contains(t, l.Reason, "the deadline of annotations was over before")
}
