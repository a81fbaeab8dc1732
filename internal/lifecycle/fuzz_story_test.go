package lifecycle

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

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
