package lifecycle

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/sessions"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
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
	due     []deadlines.Stage
	over    bool
	stopped bool
	// served: the node was Ready once; gone: slurmctld has said that it has no record
	// of it, and no slurmd has begun since that could make another.
	served, gone bool
	// reaching: what is asked is slurmctld's port, and no record.
	reaching bool
	// doubtful: the last answer may call an idle node MIXED.
	doubtful bool
	// elsewhere: by the last answer a job that ran here ends on another node.
	elsewhere bool
	// untold: by the last answer the job has ended here, and slurmstepd has still to tell.
	untold bool
	// refused: slurmctld drains the node because slurmd has refused a launch.
	refused bool
	// listens: slurmdbd takes connections. away: it has no connection to its database.
	listens, away bool
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
		_, last, err := replay(w.story())
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
	{"node", "step-ends answer start ready timer answer SIGTERM lifted done runs timer timer count"},
	{"slurmctld", "reloaded reloaded start ready timer answer edit:1 reloaded reloaded reloaded reloaded handover timer answer reloaded:3"},
	{"login", "step-ends answer start ready timer answer SIGTERM exit timer start ready deadline deadline"},
	{"login", "step-ends answer start ready timer answer SIGTERM measure:6 deadline deadline deadline deadline deadline"},
	{"login", "step-ends answer start ready timer answer SIGTERM sessions-over measure:6 deadline deadline deadline deadline deadline"},
	{"slurmdbd", "step-ends answer start timer answer SIGTERM measure:6 deadline"},
	{"node", "step-ends answer start ready timer answer SIGTERM answer:no-record measure:6 deadline deadline deadline deadline deadline deadline"},
	{"slurmdbd", "step-ends answer start timer answer exit timer start"},
	// slurmdbd converts its database.
	{"slurmdbd", "step-ends answer start timer answer:no files files-restart SIGHUP timer answer exit answer start timer answer:no SIGTERM answer:no timer answer timer"},
	{"slurmdbd", "step-ends answer start timer answer:no files-restart database-away exit answer start timer answer:no SIGTERM measure:6 deadline"},
	{"slurmdbd", "step-ends answer start timer answer:no SIGTERM database-away exit"},
	{"node", "step-ends answer start ready timer answer launch-refused timer answer done:no launch-refused timer answer done timer answer SIGTERM"},
	{"elastic", "step-ends answer start ready timer answer:powering-up timer answer launch-refused timer answer done timer answer SIGTERM"},
	{"slurmctld", "reloaded reloaded start ready timer answer edit:1 reloaded reloaded handover timer answer reloaded"},
	{"slurmctld", "reloaded reloaded start ready timer answer edit:1 reloaded reloaded:no reloaded handover timer answer edit:2 reloaded edit reloaded handover timer answer reloaded:silent reload-timer reloaded handover timer answer"},
	{"elastic", "step-ends answer answer:powering-up start ready timer answer:powering-up timer answer SIGTERM look:runs done timer look:powering-down exit"},
	{"elastic", "step-ends answer start ready timer answer SIGTERM look:lifted done look:runs step-ends timer look:powering-down handover timer look:powered-down timer answer done"},
	{"elastic", "step-ends answer start ready timer answer:bigger done timer answer:bigger-drained timer answer:drained done answer exit SIGTERM answer start ready timer look:powered-down exit"},
	{"elastic", "step-ends answer start ready timer answer:no-cloud done timer answer:no-record SIGTERM answer:no-cloud done done exit"},
	{"elastic", "step-ends answer start ready timer answer SIGTERM look:runs deadline look:runs deadline look:runs done deadline deadline look:runs done look:powering-down-step step-ends timer look:powering-down"},
	// The live set is reloaded by hand.
	{"slurmctld", "reloaded reloaded start ready timer answer reloaded reloaded handover timer answer reloaded edit:4 reloaded reloaded reloaded handover timer answer reloaded"},
	// slurmctld hangs, and is ended.
	{"slurmctld", "reloaded:silent reloaded:silent start:3 ready:4 timer:3 answer:bigger-busy reloaded:silent reload-timer:3 reload-timer:3 reloaded:silent reload-timer:3 reload-timer:3 reload-timer:3 reload-timer:3 reload-timer:3 reloaded:silent reload-timer:3 reloaded:silent reload-timer:3"},
	// slurmctld crashes, and is started again in its container.
	{"slurmctld", "reloaded edit:held reloaded start ready timer answer exit:8 reloaded start ready timer answer exit:8 timer edit:1 reloaded start exit:8 timer reloaded start ready timer answer exit"},
	{"slurmctld", "reloaded reloaded start ready timer answer reloaded reloaded handover exit timer reload-timer reload-timer reload-timer reload-timer reloaded reloaded handover exit timer answer reloaded"},
}

// roles are the kinds of roles that a story is about.
var roles = []string{"node", "slurmctld", "login", "slurmdbd", "elastic"}

// A story is played from a script, which has a byte for each move: its low bits choose the move of
// the role, and the high bits which way it takes.
var (
	nodeMoves = [16]worldMove{
		{"news", (*world).news, newsWays},
		{"answer", (*world).answer, answerWays},
		{"start", (*world).startEnds, []string{15: "fails"}},
		{"ready", func(w *world, _ byte) { w.feed(supervisor.MainReady{}) }, nil},
		{"exit", (*world).die, nil},
		{"handover", func(w *world, _ byte) { w.handOver() }, nil},
		{"done", (*world).changed, []string{1: "no", 3: "no-record"}},
		{"SIGHUP", func(w *world, _ byte) { w.feed(supervisor.HungUp{}) }, nil},
		{"SIGTERM", (*world).goDown, []string{1: "deadline", 8: "sessions-over"}},
		{"timer", (*world).fire, nil},
		{"look", (*world).look, lookWays},
		{"exit", (*world).die, nil},
		{"timer", (*world).fire, nil},
		{"timer", (*world).fire, nil},
		{"timer", (*world).fire, nil},
		{"measure", (*world).change, []string{1: "grows", 2: "weight", 3: "grows-weight", 4: "order", 7: "moved", 8: "deadline", 12: "no", 15: "database-away"}},
	}
	newsWays = []string{
		0: "step-ends", 1: "count", 2: "complain", 3: "count-one", 4: "files", 6: "files-restart", 8: "slurmctld-lost", 10: "lost-jobs",
		12: "outdated", 13: "launch-refused", 14: "hang",
	}
	answerWays = []string{
		"", "no-record", "bigger", "bigger-busy", "bigger-drained", "bigger-admins", "admins", "drained", "earlier",
		"too-small", "busy-too-small", "down", "no-gpus", "gpus-found", "not-responding", "no",
	}
	// lookWays are answers about a node that is being left.
	lookWays = []string{
		"runs", "runs-admins", "held", "doubtful", "completing", "suspended", "suspended-resumed", "step-left",
		"down", "down-step", "reserved", "late", "no-record-step", "lifted", "not-responding-step", "no-answer",
	}
	elasticMoves = func() [16]worldMove {
		moves := nodeMoves
		moves[1] = worldMove{"answer", (*world).answerElastic, []string{
			"", "no-record", "bigger", "bigger-busy", "bigger-drained", "bigger-admins", "admins", "drained", "earlier",
			"too-small", "busy-too-small", "powering-up", "no-cloud", "asap", "not-responding", "no",
		}}
		moves[10] = worldMove{"look", (*world).lookElastic, []string{
			"runs", "runs-admins", "held", "doubtful", "completing", "suspended", "suspended-resumed", "powering-down-step",
			"down", "powered-down", "powering-down", "late", "powering-up-job", "lifted", "not-responding-step", "no-answer",
		}}
		return moves
	}()
	slurmctldMoves = func() [16]worldMove {
		moves := nodeMoves
		moves[0] = worldMove{"reload-timer", func(w *world, how byte) { w.conf.fire(w, how) }, nil}
		moves[6] = worldMove{"reloaded", func(w *world, how byte) { w.conf.settle(w, how) }, []string{1: "no", 2: "silent", 3: "jobs"}}
		moves[15] = worldMove{"edit", (*world).edit, []string{14: "held", 15: "no"}}
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
	switch role {
	case "slurmctld":
		return slurmctldMoves
	case "elastic":
		return elasticMoves
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
	if (role == "node" || role == "elastic") && len(script)%2 == 0 {
		w.first += " inherits"
	} else if role == "node" && len(script)%3 == 0 {
		w.first += " fresh"
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
	w.feed(supervisor.Begun{})
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
	cases, _, err := replay(w.story())
	require.NoError(w, err)
	return strings.Join(cases, "")
}

// story is what has happened, as a transcript that -update has still to complete.
func (w *world) story() string {
	l, err := readLife(strings.TrimPrefix(w.first, "life "))
	require.NoError(w, err)
	text := "== a story\n" + w.first + "\n"
	for i, e := range w.told {
		text += formatEvent(l, e) + "\n"
		if i < len(w.told)-1 { // Step may have panicked over the last
			l, _ = Step(l, e)
		}
	}
	return text
}

// feed is one step: what comes back is carried out and checked.
func (w *world) feed(e Event) {
	if w.over {
		return
	}
	w.told = append(w.told, e)
	w.listen(e)
	_, terminates := e.(supervisor.Terminated)
	first := terminates && !w.stopped
	w.stopped = w.stopped || terminates
	question := w.life.Question
	_, isTimer := e.(supervisor.TimerFired)
	changing := isTimer && slices.Contains(w.changes, question)
	var actions []Action
	w.inStep = true
	before := w.life
	w.life, actions = Step(w.life, e)
	w.inStep = false
	w.conf.hear(w.life.ConfNews(before))
	w.checkHaste(e, before, actions)
	require.False(w, changing && w.life.Question != question, "the outcome of a change will not be heard: %+v", w.life)
	if w.served && !w.gone && first {
		require.Contains(w, actions, deadlines.Schedule{Stage: deadlines.Stop, After: w.life.Deadlines.Stop}, "a node in service is not taken out of it: %+v", w.life)
		require.NotEqual(w, supervisor.Ending, w.life.Activity, "a node in service is dropped")
	}
	w.served = w.served || w.life.Registers && w.life.Phase == supervisor.Ready
	for _, a := range actions {
		w.carryOut(a)
	}
	w.check()
}

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

// listen is what the world knows of slurmctld's own words on the record.
func (w *world) listen(e Event) {
	_, w.away = e.(DatabaseAway)
	switch e := e.(type) {
	case supervisor.MainStarted, supervisor.MainChanged:
		w.gone, w.listens = false, false
	case node.Answered:
		if e.Number == w.life.Question && e.Err == nil && !w.reaching {
			w.listens = true
			w.gone = e.Node == nil || e.Node.Elastic() && w.life.Elastic && (e.Node.Off() || e.Node.Is("POWERING_UP"))
		}
	case node.Done:
		if e.Number == w.life.Question && w.life.Activity == supervisor.Deleting {
			if e.Err == nil || errors.Is(e.Err, slurm.ErrNoNode) {
				w.gone = true
			}
			if errors.Is(e.Err, slurm.ErrKept) && w.stopped {
				w.gone = true // slurmctld counts on no slurmd there
			}
		}
	}
}

func (w *world) carryOut(a Action) {
	switch a := a.(type) {
	case supervisor.StartMain:
		require.Empty(w, w.alive, "a second main process")
		require.Zero(w, w.starts, "a second start")
		require.False(w, w.stopped && (!w.life.Registers && !w.life.Hosts || w.life.Activity == supervisor.Ending), "a start after SIGTERM")
		w.starts++
	case supervisor.SignalMain:
		require.True(w, w.alive[w.life.Main], "%s to a process that was reaped, or to none", a.Signal)
		w.checkConversion(a)
	case node.CountSteps:
		require.Equal(w, supervisor.Finishing, w.life.Activity)
		w.counts = append(w.counts, a.Number)
	case supervisor.Reach:
		w.asked, w.reaching = append(w.asked, a.Number), true
	case node.AskNode:
		w.asked, w.reaching = append(w.asked, a.Number), false
	case node.AskJobs:
		w.asked, w.reaching = append(w.asked, a.Number), false
	case supervisor.Confirm:
		w.asked, w.reaching = append(w.asked, a.Number), false
	case node.Change:
		w.checkChange(a)
		w.changes = append(w.changes, a.Number)
	case node.FindLostJobs:
		require.False(w, w.stopped)
		require.Equal(w, supervisor.Ready, w.life.Phase)
	case node.KillSteps:
		require.True(w, w.life.Acted >= deadlines.Fail || w.life.Stage == deadlines.Stop, "a job that may run on lives as long as slurmd")
	case deadlines.Schedule:
		require.GreaterOrEqual(w, a.After, time.Duration(0))
		w.due = append(w.due, a.Stage)
	case supervisor.Arm:
		require.Positive(w, a.After)
		w.timers = append(w.timers, a.Number)
	case sessions.DrainSessions:
		require.False(w, w.sessions, "drained twice")
		w.sessions = true
	case sessions.WarnSessions, sessions.EndSessions:
		require.True(w, w.stopped && w.life.Hosts)
	case supervisor.Exit:
		w.over = true
		require.False(w, w.served && !w.gone && a.Code == exitcode.OK, "the record may still be there, and the exit status says it is not: %+v", w.life)
	default:
		w.conf.carryOut(w, a)
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
		require.False(w, w.untold && w.life.Stage < deadlines.Leave, "a job that has ended fails")
		require.True(w, w.life.Elastic && w.record.Elastic() && w.record.Busy())
		require.True(w, w.life.Stage >= deadlines.Fail || w.life.HasSackd, "jobs run on it")
	case node.DrainNode:
		require.False(w, node.Foreign(w.record), "an admin's drain gets our reason")
	case node.ResumeNode:
		require.True(w, node.Own(w.record) || node.PutRight(w.record) || w.life.Elastic && node.Outlived(w.record), "a drain that was not ours is lifted")
	case node.MendLaunch:
		require.False(w, w.stopped)
		require.True(w, node.Relaunched(w.record) || w.life.Relaunched, "nothing is to be mended")
	case node.EndStaleJobs:
		require.True(w, w.record.Busy() && (w.life.Inherits || w.life.Fresh), "jobs of this container may live")
	case node.UpdateNode:
		require.NotEmpty(w, a.Fields)
	case node.RequeueJobs:
		require.False(w, w.untold && a.Last && w.life.Stage < deadlines.Leave, "slurmstepd has time to tell of the job's end")
		require.True(w, w.life.Stage >= deadlines.Requeue && w.record.Busy())
	case node.FailNode:
		require.False(w, w.untold && w.life.Stage < deadlines.Leave, "a job that has ended fails")
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

// TestEveryEventIsPlayed: the fuzzer has a move for each event, so that no state goes without one.
func TestEveryEventIsPlayed(t *testing.T) {
	played := map[reflect.Type]bool{}
	dice := rand.New(rand.NewPCG(1, 2))
	play := func(role string, script []byte) {
		w := newWorld(t, role, script)
		w.play(script)
		for _, e := range w.told {
			played[reflect.TypeOf(e)] = true
		}
	}
	for _, s := range seeds {
		play(s.role, script(s.role, s.moves))
	}
	for i := range 400 {
		script := make([]byte, 60)
		for j := range script {
			script[j] = byte(dice.UintN(256))
		}
		play(roles[i%len(roles)], script)
	}
	for _, e := range eventWords {
		assert.True(t, played[reflect.TypeOf(e.usual)], "no move leads to %s", e.word)
	}
}
