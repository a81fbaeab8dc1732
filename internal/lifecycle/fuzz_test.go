package lifecycle

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/exitcode"
	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// world is what the fuzzer plays with the state machine: it carries actions
// out, in its own time and order, and holds the machine to its invariants.
type world struct {
	*testing.T
	life    State
	alive   map[int]bool // the daemons that live, and have not been reported dead
	pids    int
	starts  int // starts asked for and not reported yet
	asked   []int
	counts  []int
	changes []int // deletions, drains and resumes
	timers  []int
	record  *slurm.Node // the last one that was shown
	due     []Stage
	over    bool
	stopped bool
	// served: the node was Ready once; gone: slurmctld has said that it has no record
	// of it, and no slurmd has begun since that could make another.
	served, gone bool
	// reaching: what is asked is slurmctld's port, and no record.
	reaching bool
	// sessions are there, and their end will be told.
	sessions bool
	conf     confWorld
}

func FuzzStep(f *testing.F) {
	f.Add(uint8(0), []byte{0, 1, 1, 2, 9, 3, 9, 1, 0})
	f.Add(uint8(0), []byte{0, 1, 1, 2, 9, 3, 9, 1, 0x24, 9, 1, 5, 4, 6, 9, 8})
	f.Add(uint8(0), []byte{0, 1, 2, 3, 9, 1, 15 | 1<<4, 1, 6, 9, 1 | 4<<4, 6, 4})
	f.Add(uint8(0), []byte{0, 1, 2, 3, 9, 1, 15 | 2<<4, 1, 6, 15, 1, 6 | 1<<4})
	f.Add(uint8(0), []byte{0, 1, 2, 3, 9, 1, 13 << 4, 8, 4, 9, 1, 2, 3, 9, 1, 6, 1 | 1<<4, 4})
	f.Add(uint8(0), []byte{0, 1, 2, 3, 9, 1, 4, 9, 9, 8, 1, 2, 3, 9, 1 | 15<<4, 9, 1 | 10<<4, 6, 1})
	f.Add(uint8(0), []byte{0, 1, 2, 3, 9, 1, 15 | 1<<4, 1, 6, 8, 5, 4, 9, 1, 2})
	f.Add(uint8(1), []byte{0, 2, 3, 9, 1, 5, 4, 8, 9, 9})
	f.Add(uint8(0), []byte{0, 1, 2, 3, 9, 1, 0x80, 9, 0xa0, 5, 1, 9, 0xa0, 4, 2, 3})
	f.Add(uint8(2), []byte{0, 1, 2, 3, 9, 1, 8, 4, 9, 2, 3, 8 | 1<<4, 8 | 1<<4})
	f.Add(uint8(3), []byte{0, 1, 2, 9, 1, 4, 9, 2})
	f.Add(uint8(1), []byte{6, 6, 2, 3, 9, 1, 15 | 1<<4, 6, 6, 5, 9, 1, 6})
	f.Add(uint8(1), []byte{6, 6, 2, 3, 9, 1, 15 | 1<<4, 6, 6 | 1<<4, 6, 5, 9, 1, 15 | 2<<4, 6, 15, 6, 5, 9, 1, 6 | 2<<4, 0, 6, 5, 9, 1})
	f.Fuzz(playScript)
}

// playScript has a world happen to a life.
func playScript(t *testing.T, role uint8, script []byte) {
	p := plans[int(role)%len(plans)]
	p.Signals, p.Deadlines = true, NewDeadlines(30*time.Second, time.Second)
	w := &world{T: t, alive: map[int]bool{}, life: New(p, nodesize.Allocation{Size: small})}
	if p.Reloads {
		w.conf.begin(w, script)
	}
	w.life.Inherits = w.life.Registers && len(script)%2 == 0
	w.feed(Begun{})
	for _, b := range script {
		w.happen(b)
	}
	w.stop()
}

// plans are the kinds of roles: a node, slurmctld, a login pod, and a daemon that
// has to be asked whether it serves.
var plans = []Plan{
	{Registers: true, Restarts: true, Announces: true, Reaches: true},
	{Announces: true, Reloads: true},
	{Restarts: true, Announces: true, Reaches: true, Hosts: true},
	{Restarts: true, Reaches: true},
}

// happen lets one thing happen: the low bits choose what, the high bits how.
func (w *world) happen(b byte) {
	how := b >> 4
	if w.life.Reloads && w.conf.happen(w, b&15, how) {
		return
	}
	switch b & 15 {
	case 1, 10:
		if len(w.asked) > 0 {
			w.answer(how)
		}
	case 2:
		w.startEnds(how)
	case 3:
		w.feed(MainReady{})
	case 4, 11:
		w.die(int(how))
	case 5:
		w.handOver()
	case 6:
		if len(w.changes) > 0 {
			n := w.changes[0]
			w.changes = w.changes[1:]
			err := w.maybe(how)
			if w.life.Activity == Deleting && how&3 == 3 {
				err = slurm.ErrNoNode
			}
			w.feed(Done{n, err})
		}
	case 7:
		w.feed(HungUp{})
	case 15:
		w.change(how)
	case 0:
		if how&1 == 0 || len(w.counts) == 0 {
			lost := LostJobsFound{Number: w.life.question, Lost: make([]string, how>>3)}
			w.feed([]Event{
				StepsEnded{}, Troubled{}, FilesChanged{}, FilesChanged{Restart: true}, ControllerLost{}, lost, Outdated{}, MainSilent{w.life.Main},
			}[how>>1&7])
			return
		}
		n := w.counts[0]
		w.counts = w.counts[1:]
		w.feed(StepsCounted{n, int(how >> 1 & 1)})
	case 8:
		switch {
		case how == 0:
			w.feed(Terminated{Signal: "SIGTERM", At: epoch})
		case how < 8 && len(w.due) > 0:
			w.nextDeadline()
		case w.sessions:
			w.sessions = false
			w.feed(SessionsOver{})
		}
	case 9, 12, 13, 14:
		if len(w.timers) > 0 {
			i := int(how) % len(w.timers)
			n := w.timers[i]
			w.timers = append(w.timers[:i:i], w.timers[i+1:]...)
			w.feed(TimerFired{n})
		}
	}
}

// change edits or resizes the pod, back and forth.
func (w *world) change(how byte) {
	now := Measured{Allocation: nodesize.Allocation{Size: small}}
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
		now = Measured{Err: errors.New("no")}
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
	n := w.asked[0]
	w.asked = w.asked[1:]
	node := []*slurm.Node{
		record(), nil, record(bigger), record(bigger, busy), record(bigger, ourDrain), record(bigger, anAdmins),
		record(anAdmins), record(ourDrain), record(stale), record(tooSmall), record(busy, tooSmall), record(down),
		record(noGPUs), record(foundGPUs), record(busy, notResponding),
	}
	if int(how) >= len(node) {
		w.feed(Answered{Number: n, Err: errors.New("no")})
		return
	}
	w.record = node[how]
	if w.record != nil && n%2 == 0 {
		w.record.SlurmdStart = slurm.Time{} // sinfo does not tell
	}
	w.feed(Answered{Number: n, Node: node[how], Steps: int(how & 1), Counted: how&1 == 0})
}

func (w *world) nextDeadline() {
	s := slices.Min(w.due)
	w.due = slices.Delete(w.due, slices.Index(w.due, s), slices.Index(w.due, s)+1)
	w.feed(DeadlinePassed{s})
}

func (w *world) startEnds(how byte) {
	if w.starts == 0 {
		return
	}
	w.starts--
	if how == 15 {
		w.feed(MainFailed{errors.New("no")})
		return
	}
	w.pids++
	w.alive[w.pids] = true
	w.feed(MainStarted{PID: w.pids, At: epoch})
}

// handOver makes the main process execute itself again.
func (w *world) handOver() {
	if !w.alive[w.life.Main] {
		return
	}
	w.pids++
	w.alive[w.pids] = true
	old := w.life.Main
	w.feed(MainChanged{PID: w.pids, At: epoch})
	w.exit(old)
}

func (w *world) die(which int) {
	for pid := range w.pids + 1 {
		if w.alive[pid] && which == 0 {
			w.exit(pid)
			return
		}
		if w.alive[pid] {
			which--
		}
	}
}

func (w *world) exit(pid int) {
	if w.alive[pid] {
		delete(w.alive, pid)
		code := 1
		if w.stopped {
			code = exitcode.OK
		}
		w.feed(MainExited{PID: pid, Code: code})
	}
}

// feed is one step: what comes back is carried out and checked.
func (w *world) feed(e Event) {
	if w.over {
		return
	}
	w.listen(e)
	_, terminates := e.(Terminated)
	first := terminates && !w.stopped
	w.stopped = w.stopped || terminates
	var actions []Action
	w.life, actions = Step(w.life, e)
	if w.served && !w.gone && first {
		require.Contains(w, actions, Schedule{toStop, w.life.Deadlines.Stop}, "a node in service is not taken out of it: %+v", w.life)
		require.NotEqual(w, Ending, w.life.Activity, "a node in service is dropped")
	}
	w.served = w.served || w.life.Registers && w.life.Phase == Ready
	for _, a := range actions {
		w.carryOut(a)
	}
	w.check()
}

// listen is what the world knows of slurmctld's own words on the record.
func (w *world) listen(e Event) {
	switch e := e.(type) {
	case MainStarted, MainChanged:
		w.gone = false
	case Answered:
		if e.Number == w.life.question && e.Err == nil && !w.reaching {
			w.gone = e.Node == nil
		}
	case Done:
		if e.Number == w.life.question && w.life.Activity == Deleting {
			if e.Err == nil || errors.Is(e.Err, slurm.ErrNoNode) {
				w.gone = true
			}
		}
	}
}

func (w *world) carryOut(a Action) {
	switch a := a.(type) {
	case StartMain:
		require.Empty(w, w.alive, "a second main process")
		require.Zero(w, w.starts, "a second start")
		require.False(w, w.stopped && (!w.life.Registers && !w.life.Hosts || w.life.Activity == Ending), "a start after SIGTERM")
		w.starts++
	case SignalMain:
		require.True(w, w.alive[w.life.Main], "%s to a process that was reaped, or to none", a.Signal)
	case CountSteps:
		require.Equal(w, Finishing, w.life.Activity)
		w.counts = append(w.counts, a.Number)
	case Reach:
		w.asked, w.reaching = append(w.asked, a.Number), true
	case AskNode:
		w.asked, w.reaching = append(w.asked, a.Number), false
	case AskJobs:
		w.asked, w.reaching = append(w.asked, a.Number), false
	case Confirm:
		w.asked, w.reaching = append(w.asked, a.Number), false
	case Change:
		w.checkChange(a)
		w.changes = append(w.changes, a.Number)
	case FindLostJobs:
		require.False(w, w.stopped)
		require.Equal(w, Ready, w.life.Phase)
	case KillSteps:
		require.True(w, w.life.acted >= toFail || w.life.stage == toStop, "a job that may run on lives as long as slurmd")
	case Schedule:
		require.GreaterOrEqual(w, a.After, time.Duration(0))
		w.due = append(w.due, a.Stage)
	case Arm:
		require.Positive(w, a.After)
		w.timers = append(w.timers, a.Number)
	case DrainSessions:
		require.False(w, w.sessions, "seen off twice")
		w.sessions = true
	case WarnSessions, EndSessions:
		require.True(w, w.stopped && w.life.Hosts)
	case Exit:
		w.over = true
		require.False(w, w.served && !w.gone && a.Code == exitcode.OK, "the record may still be there, and the exit status says it is not: %+v", w.life)
	default:
		w.conf.carryOut(w, a)
	}
}

// checkChange: what is changed may be changed now.
func (w *world) checkChange(a Change) {
	switch a.Verb {
	case DeleteNode, DeleteAgain:
		require.False(w, Foreign(w.record) && !w.stopped, "a deleted record takes an admin's drain with it")
		require.False(w, w.record.Busy(), "jobs run on it")
	case DrainNode:
		require.False(w, Foreign(w.record), "an admin's drain gets our reason")
	case ResumeNode:
		require.True(w, Own(w.record) || putRight(w.record), "a drain that was not ours is lifted")
	case EndStaleJobs:
		require.True(w, w.record.Busy() && w.life.Inherits, "jobs of this container may live")
	case UpdateNode:
		require.NotEmpty(w, a.Fields)
	case RequeueJobs:
		require.True(w, w.life.stage >= toRequeue && w.record.Busy())
	case FailNode:
		require.True(w, w.record.Busy())
		require.True(w, w.life.stage >= toFail || w.life.hasSackd, "jobs run on it")
	case StartSackd:
		require.True(w, w.stopped && w.life.maySpeak())
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
	require.Equal(w, w.over, l.Phase == Exited)
	w.conf.check(w)
	if !w.over {
		waits := len(w.conf.asked)+len(w.asked)+len(w.counts)+len(w.changes)+len(w.timers)+len(w.due)+w.starts > 0 || l.Main != 0
		require.True(w, waits, "nothing will ever happen again: %+v", l)
	}
}

// stop: every path from a SIGTERM ends in Exited, at the latest when all
// deadlines and both of the last timers are over.
func (w *world) stop() {
	w.feed(Terminated{Signal: "SIGTERM", At: epoch})
	for len(w.due) > 0 && !w.over {
		w.nextDeadline()
	}
	for w.starts > 0 && !w.over {
		w.startEnds(0)
	}
	for range 2 {
		w.feed(TimerFired{w.life.timer})
	}
	require.True(w, w.over, "not Exited: %+v", w.life)
}
