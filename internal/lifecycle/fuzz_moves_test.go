package lifecycle

import (
	"errors"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/sessions"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// The moves of the fuzzer's world: what may happen next, in all its ways.

func (w *world) changed(how byte) {
	if len(w.changes) == 0 {
		return
	}
	n := w.changes[0]
	w.changes = w.changes[1:]
	err := w.maybe(how)
	if w.life.Activity == supervisor.Deleting && how&3 == 3 {
		err = slurm.ErrNoNode
	}
	if w.life.Activity == supervisor.Deleting && how&7 == 5 {
		err = slurm.ErrKept
	}
	w.refused = w.refused && (w.life.Activity != supervisor.Mending || err != nil)
	w.feed(node.Done{Number: n, Err: err})
}

func (w *world) news(how byte) {
	if how == 13 {
		w.refused = true
		w.feed(node.LaunchRefused{})
		return
	}
	if how&1 == 0 || len(w.counts) == 0 {
		lost := node.LostJobsFound{Number: w.life.Question}
		if how>>3 == 1 {
			lost.Lost = []string{"3"}
		}
		w.feed([]Event{
			node.StepsEnded{}, supervisor.Troubled{}, supervisor.FilesChanged{}, supervisor.FilesChanged{Restart: true}, node.SlurmctldLost{}, lost, supervisor.Outdated{}, supervisor.MainHung{PID: w.life.Main},
		}[how>>1&7])
		return
	}
	n := w.counts[0]
	w.counts = w.counts[1:]
	w.feed(node.StepsCounted{Number: n, Steps: int(how >> 1 & 1)})
}

// goDown is SIGTERM, and what comes of it.
func (w *world) goDown(how byte) {
	switch {
	case how == 0:
		w.feed(supervisor.Terminated{Signal: "SIGTERM", At: epoch})
	case how < 8 && len(w.due) > 0:
		w.nextDeadline()
	case w.sessions:
		w.sessions = false
		w.feed(sessions.SessionsOver{})
	}
}

func (w *world) fire(how byte) {
	if len(w.timers) == 0 {
		return
	}
	i := int(how) % len(w.timers)
	n := w.timers[i]
	w.timers = append(w.timers[:i:i], w.timers[i+1:]...)
	w.feed(supervisor.TimerFired{Number: n})
}

// change edits or resizes the pod, back and forth; or somebody says when it is killed, or slurmctld's pod moves.
func (w *world) change(how byte) {
	switch how {
	case 4, 5:
		w.feed(deadlines.DeadlineSet{At: epoch, Grace: time.Duration(how&1) * 10 * time.Second, Source: "slurmlet deadline"})
		return
	case 6:
		w.feed(deadlines.DeadlineSet{At: epoch, Deadline: epoch.Add(5 * time.Second), Source: "the controller"})
		return
	case 7:
		w.feed(supervisor.SlurmctldMoved{})
		return
	case 15:
		w.feed(DatabaseAway{})
		return
	}
	now := node.Measured{Allocation: nodesize.Allocation{Size: small}, At: epoch}
	if how&1 != 0 {
		now.Size.CPUs = 4 // as of the bigger record
	}
	if how&2 != 0 {
		now.Traits.Weight = nodesize.Trait{Value: "5", Source: "annotations"}
	}
	if how&12 == 8 {
		now.At = epoch.Add(time.Duration(how) * time.Second)
		now.Grace.Deadline = cgroup.Bound[time.Time]{Value: now.At.Add(time.Duration(how&3) * 10 * time.Second), Source: "annotations"}
	}
	if how&12 == 12 {
		now.Err = errors.New("no")
	}
	w.feed(now)
}

func (w *world) maybe(how byte) error {
	if how&1 == 1 {
		return errors.New("no")
	}
	return nil
}

func (w *world) answer(how byte) {
	if len(w.asked) == 0 {
		return
	}
	n := w.asked[0]
	w.asked = w.asked[1:]
	records := []*slurm.Node{
		record(), nil, record(bigger), record(bigger, busy), record(bigger, ourDrain), record(bigger, anAdmins),
		record(anAdmins), record(ourDrain), record(stale), record(tooSmall), record(busy, tooSmall), record(down),
		record(noGPUs), record(foundGPUs), record(busy, notResponding),
	}
	if int(how) >= len(records) {
		w.feed(node.Answered{Number: n, Err: errors.New("no")})
		return
	}
	if how == 0 && w.refused {
		records[how] = record(relaunched)
	}
	w.record = records[how]
	if w.record != nil && n%2 == 0 {
		w.record.SlurmdStartAt = 0 // sinfo does not tell
	}
	w.doubtful = how&1 == 0 && n%3 == 0 && records[how] != nil && records[how].Is("MIXED")
	w.elsewhere, w.unreported = false, false
	w.feed(node.Answered{Number: n, Node: records[how], Steps: int(how & 1), Counted: how&1 == 0, Doubtful: w.doubtful})
}

// look answers what the agent asks on the way down, or before it deletes a record.
func (w *world) look(how byte) {
	if len(w.asked) == 0 {
		return
	}
	w.tell([]node.Answered{
		{Node: record(busy, ourDrain), Steps: 2, Jobs: jobs("RUNNING")},
		{Node: record(busy, anAdmins), Steps: 1, Jobs: jobs("RUNNING")},
		{Node: record(busy, ourDrain), Jobs: jobs("RUNNING"), Counted: true},
		{Node: record(busy, ourDrain), Doubtful: true},
		{Node: record(completing, ourDrain), Jobs: jobs("COMPLETING"), Counted: true},
		{Node: record(suspended, ourDrain), Steps: 1, Jobs: jobs("SUSPENDED")},
		{Node: record(suspended), Steps: 1, Jobs: jobs("SUSPENDED")},
		{Node: record(ourDrain), Steps: 1},
		{Node: record(down, ourDrain)},
		{Node: record(down, ourDrain), Steps: 1},
		{Node: record(reserved, ourDrain)},
		{Err: slurm.ErrUnreachable, Late: true, Steps: 1},
		{Steps: 1},
		{Node: record(busy), Steps: 1, Jobs: jobs("RUNNING")},
		{Node: record(busy, notResponding, ourDrain), Steps: 1, Jobs: jobs("RUNNING")},
		{Err: slurm.ErrUnreachable},
	}[how])
}

// answerElastic and lookElastic do so for a node that slurmctld starts and ends.
func (w *world) answerElastic(how byte) {
	if len(w.asked) == 0 {
		return
	}
	usual := record(cloud)
	if w.refused {
		usual = record(cloud, relaunched)
	}
	w.tell([16]node.Answered{
		{Node: usual},
		{},
		{Node: record(cloud, bigger)},
		{Node: record(busy, cloud, bigger), Steps: 1},
		{Node: record(cloud, bigger, ourDrain)},
		{Node: record(cloud, bigger, anAdmins)},
		{Node: record(cloud, anAdmins)},
		{Node: record(cloud, ourDrain)},
		{Node: record(cloud, stale)},
		{Node: record(cloud, tooSmall)},
		{Node: record(busy, cloud, tooSmall), Steps: 1},
		{Node: record(cloud, stale, is("POWERING_UP"), notResponding)},
		{Node: record()},
		{Node: record(busy, cloud, ourDrain, is("POWER_DOWN")), Steps: 1},
		{Node: record(busy, cloud, notResponding), Steps: 1},
		{Err: errNo},
	}[how])
}

func (w *world) lookElastic(how byte) {
	if len(w.asked) == 0 {
		return
	}
	w.tell([16]node.Answered{
		{Node: record(busy, cloud, ourDrain, is("POWER_DOWN")), Steps: 2, Jobs: jobs("RUNNING")},
		{Node: record(busy, cloud, anAdmins, is("POWER_DOWN")), Steps: 1, Jobs: jobs("RUNNING")},
		{Node: record(busy, cloud, ourDrain, is("POWER_DOWN")), Jobs: jobs("RUNNING"), Counted: true},
		{Node: record(busy, cloud, ourDrain, is("POWER_DOWN")), Doubtful: true},
		{Node: record(completing, cloud, is("POWERING_DOWN")), Jobs: jobs("COMPLETING"), Counted: true},
		{Node: record(suspended, cloud, ourDrain, is("POWER_DOWN")), Steps: 1, Jobs: jobs("SUSPENDED")},
		{Node: record(suspended, cloud), Steps: 1, Jobs: jobs("SUSPENDED")},
		{Node: record(cloud, is("POWERING_DOWN")), Steps: 1},
		{Node: record(down, cloud, ourDrain)},
		{Node: record(cloud, is("POWERED_DOWN"))},
		{Node: record(cloud, is("POWERING_DOWN"))},
		{Err: slurm.ErrUnreachable, Late: true, Steps: 1},
		{Node: record(busy, cloud, is("POWERING_UP"), notResponding), Jobs: jobs("CONFIGURING")},
		{Node: record(busy, cloud, is("POWER_DOWN")), Steps: 1, Jobs: jobs("RUNNING")},
		{Node: record(busy, cloud, notResponding, ourDrain, is("POWER_DOWN")), Steps: 1, Jobs: jobs("RUNNING")},
		{Err: slurm.ErrUnreachable},
	}[how])
}

// tell answers the oldest question.
func (w *world) tell(e node.Answered) {
	e.Number = w.asked[0]
	w.asked = w.asked[1:]
	if e.Err == nil {
		if e.Node != nil && (e.Doubtful || !e.Node.Busy()) && e.Number%4 == 0 {
			e.Elsewhere = jobs("COMPLETED+COMPLETING")
		}
		if e.Steps > 0 && len(e.Jobs) > 0 && e.Jobs[0].Running() && e.Number%3 == 0 {
			e.Unreported = 1
		}
		w.record, w.doubtful, w.elsewhere, w.unreported = e.Node, e.Doubtful, len(e.Elsewhere) > 0, e.Unreported > 0
	}
	w.feed(e)
	if l := w.life; w.stopped && w.elsewhere && l.Activity == supervisor.Finishing && len(e.Jobs) == 0 && !w.record.Elastic() {
		require.True(w, w.record.Drained() || node.ActionDue(l.Supervisor, l.Node), "new jobs come to a pod that waits for others to end")
	}
}

func jobs(state string) []slurm.Job { return []slurm.Job{{ID: 5, State: []string{state}}} }

func (w *world) nextDeadline() {
	s := slices.Min(w.due)
	w.due = slices.Delete(w.due, slices.Index(w.due, s), slices.Index(w.due, s)+1)
	w.feed(deadlines.DeadlinePassed{Stage: s})
}

func (w *world) startEnds(how byte) {
	if w.starts == 0 {
		return
	}
	w.starts--
	if how == 15 {
		w.feed(supervisor.MainFailed{Err: errors.New("no")})
		return
	}
	w.pids++
	w.alive[w.pids] = true
	w.feed(supervisor.MainStarted{PID: w.pids, At: epoch})
}

// handOver makes the main process execute itself again.
func (w *world) handOver() {
	if !w.alive[w.life.Main] || !w.life.Announces {
		return
	}
	w.pids++
	w.alive[w.pids] = true
	old := w.life.Main
	w.feed(supervisor.MainChanged{PID: w.pids, At: epoch})
	w.exit(old, false)
}

// die has one of the living daemons end, by itself or by a signal.
func (w *world) die(how byte) {
	which := int(how & 7)
	for pid := range w.pids + 1 {
		if w.alive[pid] && which == 0 {
			w.exit(pid, how&8 != 0)
			return
		}
		if w.alive[pid] {
			which--
		}
	}
}

func (w *world) exit(pid int, bySignal bool) {
	if w.alive[pid] {
		delete(w.alive, pid)
		code := 1
		switch {
		case w.stopped:
			code = exitcode.OK
		case bySignal:
			code = 137
		}
		w.feed(supervisor.MainExited{PID: pid, Code: code})
	}
}
