package agent

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/nodesize"
)

// stoppingNode is a node on its way down for an hour of a day, with a job.
func stoppingNode(t *testing.T) life {
	t.Helper()
	l := isReady()
	l.way = newWayDown(24*time.Hour, 0)
	l, _ = play(l, terminated{signal: "SIGTERM", at: epoch})
	l, _ = play(l, answered{number: l.question, node: record(busy, ourDrain), steps: 1})
	require.Equal(t, finishing, l.doing)
	return l
}

func annotated(at time.Time, deadline time.Time) measured {
	return measured{Allocation: nodesize.Allocation{Size: small, Grace: nodesize.Grace{Deadline: cgroup.Bound[time.Time]{Value: deadline, Source: "annotations"}}}, at: at}
}

func TestHasten(t *testing.T) {
	now := epoch.Add(time.Hour)
	l, actions := play(stoppingNode(t), annotated(now, now.Add(30*time.Second)))
	const ms = time.Millisecond
	require.Equal(t, []action{
		schedule{toRequeue, 14000 * ms}, schedule{toKill, 17750 * ms}, schedule{toFail, 21500 * ms}, schedule{toLeave, 23375 * ms}, schedule{toStop, 25250 * ms},
	}, actions)
	require.Equal(t, "annotations", l.by)

	l, actions = play(l, annotated(now.Add(time.Second), now.Add(30*time.Second)), annotated(now.Add(time.Second), now.Add(time.Hour)), measured{at: now.Add(time.Second)})
	require.Empty(t, actions, "nothing is put off")

	l, actions = play(l, deadline{toRequeue}, annotated(now.Add(15*time.Second), now.Add(20*time.Second)))
	require.NotContains(t, actions, schedule{toRequeue, 0}, "once is enough")
	require.Contains(t, actions, schedule{toFail, 3125 * ms})
	stage, question := l.stage, l.question
	l, actions = play(l, deadline{toRequeue})
	require.Empty(t, actions, "the one that was brought forward fires, too")
	require.Equal(t, []any{stage, question}, []any{l.stage, l.question})
}

func TestHastenByHand(t *testing.T) {
	now := epoch.Add(time.Hour)
	l, actions := play(stoppingNode(t), ordered{now, now.Add(30 * time.Second)})
	require.Contains(t, actions, schedule{toRequeue, 14 * time.Second})
	require.Equal(t, "slurmlet deadline", l.by)
	_, actions = play(l, ordered{now, now.Add(time.Hour)}, annotated(now, now.Add(time.Hour)))
	require.Empty(t, actions, "the earliest counts")

	l, _ = play(isReady(), ordered{epoch, epoch.Add(2 * time.Second)}, terminated{signal: "SIGTERM", at: epoch})
	require.Equal(t, newWayDown(2*time.Second, 0), l.way, "before SIGTERM")
}

// TestHastenFaults: what cannot be used changes nothing, and is told.
func TestHastenFaults(t *testing.T) {
	now := epoch.Add(time.Hour)
	bad := measured{at: now, err: nodesize.PodInfoError{Err: errors.New("annotations: no")}}
	l, actions := play(stoppingNode(t), bad)
	require.Empty(t, actions)
	require.Equal(t, "annotations: no", l.fault)

	l = isReady()
	l, _ = play(l, annotated(epoch, epoch.Add(4*time.Second)), bad, terminated{signal: "SIGTERM", at: epoch})
	require.Equal(t, newWayDown(4*time.Second, 0), l.way, "the last good one stays")

	l, _ = play(isReady(), annotated(epoch, epoch.Add(-time.Minute)), terminated{signal: "SIGTERM", at: epoch})
	require.Equal(t, newWayDown(30*time.Second, 0), l.way)
	require.Contains(t, l.reason, "the deadline of annotations was over before")
}
