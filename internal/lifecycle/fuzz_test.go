package lifecycle

import (
	"errors"
	"slices"
	"strconv"
	"strings"
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
	role    string
	first   string // the line of the first state
	told    []Event
	inStep  bool
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

// FuzzStep plays stories at random. A story that fails is told as a transcript.
func FuzzStep(f *testing.F) {
	for _, s := range seeds {
		f.Add(uint8(slices.Index(roles, s.role)), script(s.role, s.moves))
	}
	f.Fuzz(func(t *testing.T, role uint8, script []byte) {
		newWorld(t, roles[int(role)%len(roles)], script).play(script)
	})
}

// TestStoryIsATranscript: what a failing story is told as leads to the state in which it failed.
func TestStoryIsATranscript(t *testing.T) {
	for _, s := range seeds {
		script := script(s.role, s.moves)
		w := newWorld(t, s.role, script)
		w.play(script)
		_, last, err := perform(w.story())
		require.NoError(t, err)
		require.Equal(t, w.life, last, w.story())
	}
}

// seeds are stories to begin with, each in the moves of its role.
var seeds = []struct{ role, moves string }{
	{"node", "step-ends answer answer start timer ready timer answer step-ends"},
	{"node", "step-ends answer answer start timer ready timer answer exit:2 timer answer handover exit done timer SIGTERM"},
	{"node", "step-ends answer start ready timer answer measure:grows answer done timer answer:bigger-drained done exit"},
	{"node", "step-ends answer start ready timer answer measure:weight answer done measure answer done:no"},
	{"node", "step-ends answer start ready timer answer news:13 SIGTERM exit timer answer start ready timer answer done answer:no-record exit"},
	{"node", "step-ends answer start ready timer answer exit timer timer SIGTERM answer start ready timer answer:no timer answer:busy-too-small done answer"},
	{"node", "step-ends answer start ready timer answer measure:grows answer done SIGTERM handover exit timer answer start"},
	{"slurmctld", "reload-timer start ready timer answer handover exit SIGTERM timer timer"},
	{"node", "step-ends answer start ready timer answer slurmctld-lost timer lost-jobs handover answer timer lost-jobs exit start ready"},
	{"login", "step-ends answer start ready timer answer SIGTERM exit timer start ready deadline deadline"},
	{"slurmdbd", "step-ends answer start timer answer exit timer start"},
	{"slurmctld", "reloaded reloaded start ready timer answer edit:1 reloaded reloaded handover timer answer reloaded"},
	{"slurmctld", "reloaded reloaded start ready timer answer edit:1 reloaded reloaded:no reloaded handover timer answer edit:2 reloaded edit reloaded handover timer answer reloaded:silent reload-timer reloaded handover timer answer"},
	// slurmctld hangs, and is ended.
	{"slurmctld", "reloaded:silent reloaded:silent start:3 ready:4 timer:3 answer:bigger-busy reloaded:silent reload-timer:3 reload-timer:3 reloaded:silent reload-timer:3 reload-timer:3 reload-timer:3 reload-timer:3 reload-timer:3 reloaded:silent reload-timer:3 reloaded:silent reload-timer:3"},
}

// roles are the kinds of roles that a story is about.
var roles = []string{"node", "slurmctld", "login", "slurmdbd"}

// A story is played from a script, which has a byte for each move: its low bits choose the move of
// the role, and the high bits which way it takes.
var (
	nodeMoves = [16]worldMove{
		{"news", (*world).news, newsWays},
		{"answer", (*world).answer, answerWays},
		{"start", (*world).startEnds, []string{15: "fails"}},
		{"ready", func(w *world, _ byte) { w.feed(MainReady{}) }, nil},
		{"exit", (*world).die, nil},
		{"handover", func(w *world, _ byte) { w.handOver() }, nil},
		{"done", (*world).changed, []string{1: "no", 3: "no-record"}},
		{"SIGHUP", func(w *world, _ byte) { w.feed(HungUp{}) }, nil},
		{"SIGTERM", (*world).goDown, []string{1: "deadline", 8: "sessions-over"}},
		{"timer", (*world).fire, nil},
		{"answer", (*world).answer, answerWays},
		{"exit", (*world).die, nil},
		{"timer", (*world).fire, nil},
		{"timer", (*world).fire, nil},
		{"timer", (*world).fire, nil},
		{"measure", (*world).change, []string{1: "grows", 2: "weight", 3: "grows-weight", 8: "deadline", 12: "no"}},
	}
	newsWays = []string{
		0: "step-ends", 1: "count", 2: "complain", 3: "count-one", 4: "files", 6: "files-restart", 8: "slurmctld-lost", 10: "lost-jobs",
		12: "outdated", 14: "hang",
	}
	answerWays = []string{
		"", "no-record", "bigger", "bigger-busy", "bigger-drained", "bigger-admins", "admins", "drained", "earlier",
		"too-small", "busy-too-small", "down", "no-gpus", "gpus-found", "not-responding", "no",
	}
	slurmctldMoves = func() [16]worldMove {
		moves := nodeMoves
		moves[0] = worldMove{"reload-timer", func(w *world, how byte) { w.conf.fire(w, how) }, nil}
		moves[6] = worldMove{"reloaded", func(w *world, how byte) { w.conf.settle(w, how) }, []string{1: "no", 2: "silent", 3: "jobs"}}
		moves[15] = worldMove{"edit", func(w *world, how byte) { w.feed(confRevision(how)) }, []string{15: "no"}}
		return moves
	}()
)

type worldMove struct {
	name string
	make func(w *world, how byte)
	// ways have names where a seed needs one; the others are numbers.
	ways []string
}

func movesOf(role string) [16]worldMove {
	if role == "slurmctld" {
		return slurmctldMoves
	}
	return nodeMoves
}

// script gives the bytes of a story in named moves, as in "timer answer:bigger".
func script(role, text string) []byte {
	var script []byte
	for word := range strings.FieldsSeq(text) {
		name, way, has := strings.Cut(word, ":")
		moves := movesOf(role)
		move := slices.IndexFunc(moves[:], func(m worldMove) bool { return m.name == name })
		if move < 0 { // a way that needs no move's name before it
			way, has = name, true
			move = slices.IndexFunc(moves[:], func(m worldMove) bool { return slices.Contains(m.ways, name) })
		}
		how, err := 0, error(nil)
		if move >= 0 && has {
			if how = slices.Index(moves[move].ways, way); how < 0 {
				how, err = strconv.Atoi(way)
			}
		}
		if move < 0 || err != nil {
			panic("no such move: " + word)
		}
		script = append(script, byte(move|how<<4))
	}
	return script
}

// newWorld is a world before its first move.
func newWorld(t *testing.T, role string, script []byte) *world {
	w := &world{T: t, role: role, alive: map[int]bool{}, first: "life " + role + " lead=1s"}
	if role == "slurmctld" {
		w.conf.begin(w, script)
	}
	if role == "node" && len(script)%2 == 0 {
		w.first += " inherits"
	}
	life, err := readLife(strings.TrimPrefix(w.first, "life "))
	require.NoError(t, err)
	w.life = life
	return w
}

// play has a world happen to a life.
func (w *world) play(script []byte) {
	over := false
	defer func() {
		if !over {
			w.Logf("the story, as a transcript:\n%s", w.transcript())
		}
	}()
	w.feed(Begun{})
	moves := movesOf(w.role)
	for _, b := range script {
		moves[b&15].make(w, b>>4)
	}
	w.stop()
	over = true
}

// transcript is the story with what was made of it, or without where Step has panicked.
func (w *world) transcript() string {
	if w.inStep {
		return w.story()
	}
	cases, _, err := perform(w.story())
	require.NoError(w, err)
	return strings.Join(cases, "")
}

// story is what has happened, as a transcript that -update has still to complete.
func (w *world) story() string {
	l, err := readLife(strings.TrimPrefix(w.first, "life "))
	require.NoError(w, err)
	text := "== a story\n" + w.first + "\n"
	for i, e := range w.told {
		text += tellEvent(l, e) + "\n"
		if i < len(w.told)-1 { // Step may have panicked over the last
			l, _ = Step(l, e)
		}
	}
	return text
}

func (w *world) changed(how byte) {
	if len(w.changes) == 0 {
		return
	}
	n := w.changes[0]
	w.changes = w.changes[1:]
	err := w.maybe(how)
	if w.life.Activity == Deleting && how&3 == 3 {
		err = slurm.ErrNoNode
	}
	w.feed(Done{n, err})
}

func (w *world) news(how byte) {
	if how&1 == 0 || len(w.counts) == 0 {
		lost := LostJobsFound{Number: w.life.question}
		if how>>3 == 1 {
			lost.Lost = []string{"3"}
		}
		w.feed([]Event{
			StepsEnded{}, Troubled{}, FilesChanged{}, FilesChanged{Restart: true}, ControllerLost{}, lost, Outdated{}, MainHung{w.life.Main},
		}[how>>1&7])
		return
	}
	n := w.counts[0]
	w.counts = w.counts[1:]
	w.feed(StepsCounted{n, int(how >> 1 & 1)})
}

// goDown is SIGTERM, and what comes of it.
func (w *world) goDown(how byte) {
	switch {
	case how == 0:
		w.feed(Terminated{Signal: "SIGTERM", At: epoch})
	case how < 8 && len(w.due) > 0:
		w.nextDeadline()
	case w.sessions:
		w.sessions = false
		w.feed(SessionsOver{})
	}
}

func (w *world) fire(how byte) {
	if len(w.timers) == 0 {
		return
	}
	i := int(how) % len(w.timers)
	n := w.timers[i]
	w.timers = append(w.timers[:i:i], w.timers[i+1:]...)
	w.feed(TimerFired{n})
}

// change edits or resizes the pod, back and forth.
func (w *world) change(how byte) {
	now := Measured{Allocation: nodesize.Allocation{Size: small}, At: epoch}
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
	w.feed(Answered{Number: n, Node: node[how], Steps: int(how & 1), Counted: how&1 == 0, Doubtful: how&1 == 0 && n%3 == 0 && node[how] != nil && node[how].Is("MIXED")})
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

// die has one of the living daemons end.
func (w *world) die(how byte) {
	which := int(how)
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
	w.told = append(w.told, e)
	w.listen(e)
	_, terminates := e.(Terminated)
	first := terminates && !w.stopped
	w.stopped = w.stopped || terminates
	var actions []Action
	w.inStep = true
	w.life, actions = Step(w.life, e)
	w.inStep = false
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
		require.False(w, w.sessions, "drained twice")
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
		require.True(w, w.stopped && w.life.mayStartSackd())
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
