package lifecycle

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

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
	// unreported: by the last answer the job has ended here, and slurmstepd has still to tell.
	unreported bool
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
	w.conf.hear(w.life.ConfAnnouncement(before))
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
