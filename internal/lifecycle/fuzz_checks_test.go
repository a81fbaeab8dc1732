package lifecycle

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/sessions"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// checkHaste: after a shorter notice each earlier deadline has a timer, and users know until when they may stay.
func (w *world) checkHaste(e Event, before State, actions []Action) {
	var at time.Time
	switch e := e.(type) {
	case node.Measured:
		at = e.At
	case deadlines.DeadlineSet:
		at = e.At
	}
	l := w.life
	if at.IsZero() || before.Phase != supervisor.Stopping || l.Phase != supervisor.Stopping {
		return
	}
	was, now := before.Deadlines, l.Deadlines
	scheduled := func(s deadlines.Stage, was, now time.Duration) {
		if now < was && !l.Over[s] {
			require.Contains(w, actions, deadlines.Schedule{Stage: s, After: max(now-at.Sub(l.StoppedAt), 0)}, "%v has no timer: %+v", s, l)
		}
	}
	if l.Activity == supervisor.Ending || l.Activity == supervisor.Converting {
		scheduled(deadlines.End, was.End, now.End)
	}
	switch {
	case !l.Bound:
	case l.Hosts:
		if l.Activity != supervisor.Ending && now.Fail < was.Fail && !l.Over[deadlines.Fail] {
			require.Contains(w, actions, sessions.WarnSessions{Until: max(now.Fail-at.Sub(l.StoppedAt), 0)})
		}
		scheduled(deadlines.Signal, was.Signal, now.Signal)
		scheduled(deadlines.Fail, was.Fail, now.Fail)
		scheduled(deadlines.Leave, was.Leave, now.Leave)
		scheduled(deadlines.Stop, was.Stop, now.Stop)
	default:
		scheduled(deadlines.Requeue, was.Requeue, now.Requeue)
		scheduled(deadlines.Kill, was.Kill, now.Kill)
		scheduled(deadlines.Fail, was.Fail, now.Fail)
		scheduled(deadlines.Leave, was.Leave, now.Leave)
		scheduled(deadlines.Stop, was.Stop, now.Stop)
	}
}

// checkConversion: a slurmdbd that may convert its database has no signal before the very end of the pod's time.
func (w *world) checkConversion(a supervisor.SignalMain) {
	due, is := w.told[len(w.told)-1].(deadlines.DeadlinePassed)
	w.listens = w.listens || w.away // and ends now
	if w.life.Converts && !w.listens {
		require.True(w, is && due.Stage == deadlines.End && a.Signal == supervisor.SigKill, "%s ends the conversion of a database", a.Signal)
	}
}

// checkChange: what is changed may be changed now.
func (w *world) checkChange(a node.Change) {
	switch a.Verb {
	case node.DeleteNode, node.RenewNode, node.DeleteAgain:
		require.Equal(w, a.Verb == node.RenewNode, !w.stopped, "a record that stays is one without a pod")
		require.False(w, node.Foreign(w.record) && !w.stopped, "a deleted record takes an admin's drain with it")
		require.False(w, w.record.Busy() && !w.doubtful, "jobs run on it") // slurmctld's refusal tells whether a doubtful one is busy
		require.False(w, w.life.Elastic && w.record.Elastic(), "slurmd would make it anew without CLOUD")
		require.False(w, a.Verb == node.DeleteNode && w.stopped && w.elsewhere && w.life.Stage < deadlines.Leave, "slurmctld needs it for a job that ends elsewhere")
	case node.PowerDownNode:
		require.True(w, w.stopped && w.life.Elastic && w.record.Elastic())
		require.False(w, w.record.Off(), "slurmctld has suspended it")
		require.False(w, w.record.Is("POWER_DOWN") && w.record.Drained(), "it is on its way")
		require.False(w, node.Foreign(w.record) && a.Reason != "", "an admin's drain gets our reason")
	case node.PowerOffNode:
		require.False(w, w.unreported && w.life.Stage < deadlines.Leave, "a job that has ended fails")
		require.True(w, w.life.Elastic && w.record.Elastic() && w.record.Busy())
		require.True(w, w.life.Stage >= deadlines.Fail || w.life.HasSackd, "jobs run on it")
	case node.DrainNode:
		require.False(w, node.Foreign(w.record), "an admin's drain gets our reason")
	case node.ResumeNode:
		require.True(w, node.Own(w.record) || node.PutRight(w.record) || w.life.Elastic && node.HasStaleRefusal(w.record), "a drain that was not ours is lifted")
	case node.MendLaunch:
		require.False(w, w.stopped)
		require.True(w, node.Relaunched(w.record) || w.life.Relaunched, "nothing is to be mended")
	case node.EndStaleJobs:
		require.True(w, w.record.Busy() && (w.life.Inherits || w.life.Fresh), "jobs of this container may live")
	case node.UpdateNode:
		require.NotEmpty(w, a.Fields)
	case node.RequeueJobs:
		require.False(w, w.unreported && a.Last && w.life.Stage < deadlines.Leave, "slurmstepd has time to tell of the job's end")
		require.True(w, w.life.Stage >= deadlines.Requeue && w.record.Busy())
	case node.FailNode:
		require.False(w, w.unreported && w.life.Stage < deadlines.Leave, "a job that has ended fails")
		require.True(w, w.record.Busy())
		require.False(w, w.life.Elastic && w.record.Elastic(), "such a node is powered off")
		require.True(w, w.life.Stage >= deadlines.Fail || w.life.HasSackd, "jobs run on it")
	case node.StartSackd:
		require.True(w, w.stopped && w.life.MayStartSackd())
	}
}

func (w *world) check() {
	l := w.life
	if l.Phase.Serving() {
		require.True(w, w.alive[l.Main], "%s without a living main process", l.Phase)
	}
	if l.Main != 0 {
		require.True(w, w.alive[l.Main], "the main process is dead")
	}
	require.Equal(w, w.over, l.Phase == supervisor.Exited)
	require.LessOrEqual(w, l.crashes, mostCrashes)
	w.conf.check(w)
	if !w.over {
		waits := len(w.conf.asked)+len(w.asked)+len(w.counts)+len(w.changes)+len(w.timers)+len(w.due)+w.starts > 0 || l.Main != 0
		require.True(w, waits, "nothing will ever happen again: %+v", l)
	}
}

// stop: every path from a SIGTERM ends in Exited, at the latest when all
// deadlines and both of the last timers are over.
func (w *world) stop() {
	w.feed(supervisor.Terminated{Signal: "SIGTERM", At: epoch})
	for len(w.due) > 0 && !w.over {
		w.nextDeadline()
	}
	for w.starts > 0 && !w.over {
		w.startEnds(0)
	}
	for range 2 {
		w.feed(supervisor.TimerFired{Number: w.life.Timer})
	}
	require.True(w, w.over, "not Exited: %+v", w.life)
}
