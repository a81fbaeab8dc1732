package agent

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

var (
	readied = append(registered, answered{node: record()})
	grown   = measured{Allocation: nodesize.Allocation{Size: nodesize.Size{CPUs: 4, RealMemory: 448}}}
	back    = measured{Allocation: nodesize.Allocation{Size: small}}
)

func TestResizeWaitsForTheJobs(t *testing.T) {
	l, _ := play(slurmdLife(), readied...)
	l, actions := play(l, grown)
	require.Equal(t, Resizing, l.state)
	require.Equal(t, []action{ask{l.question}}, actions)
	l, actions = play(l, answered{node: record(busy)})
	require.Equal(t, []action{drainRecord{l.question, reasonResize}}, actions)
	l, _ = play(l, carriedOut{}, timerFired{})
	for range watchedTries {
		l, actions = play(l, answered{node: record(busy, ourDrain)})
		require.NotContains(t, actions, signalMain{sigHup}, "nothing that runs is touched")
		l, _ = play(l, timerFired{})
	}
	l, actions = play(l, answered{node: record(busy, ourDrain)})
	require.Equal(t, []action{arm{l.timer, watchedPause}}, actions, "the end of a step is waited for, not asked for")
	require.True(t, l.state.Serving())
	l, actions = play(l, stepsEnded{}, timerFired{})
	require.Equal(t, []action{ask{l.question}}, actions)
	l, actions = play(l, answered{node: record(ourDrain)})
	require.Equal(t, []action{deleteRecord{l.question}}, actions)
	l, actions = play(l, carriedOut{})
	require.Equal(t, []action{arm{l.timer, min(l.way.End, replaceTime)}, signalMain{sigTerm}}, actions)
	l, actions = play(l, mainExited{pid: 7})
	require.Equal(t, []action{startMain{}}, actions)
	l, _ = play(l, mainStarted{pid: 8, at: epoch}, mainReady{}, timerFired{}, answered{node: record(bigger)})
	require.Equal(t, Ready, l.state)
}

// TestNextSlurmd: a slurmd that does not stop keeps the node from its work.
func TestNextSlurmd(t *testing.T) {
	l := slurmdLife()
	l.way = newWayDown(24*time.Hour, 0)
	l, _ = play(l, append(registered, answered{node: record()})...)
	l, actions := play(l, outdated{})
	require.Equal(t, []action{arm{l.timer, replaceTime}, signalMain{sigTerm}}, actions)
	l, actions = play(l, timerFired{})
	require.Equal(t, []action{signalMain{sigKill}}, actions)
	_, actions = play(l, mainExited{pid: 7})
	require.Equal(t, []action{startMain{}}, actions)
}

func TestResizeAndBack(t *testing.T) {
	l, _ := play(slurmdLife(), append(readied, grown, answered{node: record(busy)}, carriedOut{}, timerFired{}, answered{node: record(busy, ourDrain)})...)
	l, _ = play(l, back)
	l, actions := play(l, answered{node: record(busy, ourDrain)})
	require.Equal(t, []action{resumeRecord{l.question}}, actions)
	l, _ = play(l, carriedOut{}, answered{node: record(busy)})
	require.Equal(t, Ready, l.state)
	require.Equal(t, 7, l.main, "slurmd was not disturbed")
}

func TestResizeOfADrainedNodeKeepsTheAdminsDrain(t *testing.T) {
	l, _ := play(slurmdLife(), append(readied, grown)...)
	l, actions := play(l, answered{node: record(anAdmins)})
	require.Equal(t, Resizing, l.state)
	require.Equal(t, []action{arm{l.timer, firstTry}}, actions)
	require.Contains(t, l.reason, "bad disk")
}

func TestResizeBeforeReady(t *testing.T) {
	l, _ := play(slurmdLife(), append(up, grown)...)
	require.Equal(t, Starting, l.state)
	l, _ = play(l, mainReady{}, timerFired{})
	_, actions := play(l, answered{node: record()})
	require.IsType(t, drainRecord{}, actions[0], "slurmd was started with the old size")
}

func TestWhatCannotBeReadChangesNothing(t *testing.T) {
	l, _ := play(slurmdLife(), readied...)
	l, actions := play(l, measured{err: errors.New("cpu.max: no")})
	require.Empty(t, actions)
	require.Equal(t, Ready, l.state)
	require.Equal(t, small, l.Size)
	require.Equal(t, "cpu.max: no", l.fault)
	l, actions = play(l, back)
	require.Empty(t, actions)
	require.Empty(t, l.fault)
}

func TestABadDescriptionAtTheStartIsWaitedOut(t *testing.T) {
	l := slurmdLife()
	l.held = "annotations: no"
	l, actions := play(l, begun{})
	require.Empty(t, actions, "nothing is registered wrong")
	require.Equal(t, "annotations: no", l.reason)
	l, _ = play(l, measured{err: errors.New("annotations: no, still")})
	require.Equal(t, "annotations: no, still", l.reason)
	_, actions = play(l, back)
	require.Equal(t, []action{reach{1}}, actions)
}

// weighted is an edit of the annotation slurmlet.dev/weight.
func weighted(weight string) measured {
	now := back
	now.Traits.Weight = nodesize.Trait{Value: weight, Source: "annotations"}
	return now
}

func weight(n int64) func(*slurm.Node) { return func(r *slurm.Node) { r.Weight = n } }

func TestTraitsAreAppliedLive(t *testing.T) {
	l, _ := play(slurmdLife(), readied...)
	l, actions := play(l, weighted("5"))
	require.Equal(t, Ready, l.state)
	require.Equal(t, []action{ask{l.question}}, actions)
	l, actions = play(l, answered{node: record(busy, weight(1))})
	require.Equal(t, []action{updateRecord{l.question, []string{"weight=5"}}}, actions)

	away, actions := play(l, carriedOut{err: fmt.Errorf("away: %w", slurm.ErrUnreachable)})
	require.Equal(t, []action{arm{l.timer + 1, firstTry}}, actions, "no answer is no refusal")
	_, actions = play(away, timerFired{})
	require.IsType(t, ask{}, actions[0])

	refused, actions := play(l, carriedOut{err: errors.New("no such parameter")})
	require.Empty(t, actions)
	require.Equal(t, Ready, refused.state)
	require.Equal(t, "no such parameter", refused.refusal)
	refused, actions = play(refused, weighted("5"))
	require.Empty(t, actions, "what was refused is not tried again")

	l, _ = play(l, carriedOut{})
	l, actions = play(l, weighted("5"))
	require.Empty(t, actions)
	l, _ = play(l, back)
	l, actions = play(l, answered{node: record(busy, weight(5))})
	require.Equal(t, []action{updateRecord{l.question, []string{"weight=1"}}}, actions, "removed: Slurm's default")
	_, actions = play(refused, back)
	require.IsType(t, ask{}, actions[0])
}

func TestAnEditOfTheTraitsDuringAnother(t *testing.T) {
	l, _ := play(slurmdLife(), append(readied, weighted("5"), answered{node: record(weight(1))}, weighted("1"))...)
	l, actions := play(l, answered{node: record(weight(5))})
	require.Equal(t, []action{updateRecord{l.question, []string{"weight=1"}}}, actions)
}

func TestAnOlderRecordGetsTheTraitsBeforeReady(t *testing.T) {
	life := slurmdLife()
	life.Traits.Features = nodesize.Trait{Value: "a,b", Source: "labels"}
	l, _ := play(life, registered...)
	l, actions := play(l, answered{node: record(func(n *slurm.Node) { n.Features = []string{"c"} })})
	require.Equal(t, []action{updateRecord{l.question, []string{"availablefeatures=a,b", "activefeatures=a,b"}}}, actions)
	require.Equal(t, Starting, l.state)
	l, _ = play(l, carriedOut{})
	require.Equal(t, Ready, l.state)
	l, _ = play(l, mainChanged{pid: 8, at: epoch.Add(time.Minute)})
	require.Equal(t, Reloading, l.state)
}
