package lifecycle

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/backoff"
	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

var (
	readied = append(registered, Answered{Node: record()})
	grown   = Measured{Allocation: nodesize.Allocation{Size: nodesize.Size{CPUs: 4, RealMemory: 448}}}
	back    = Measured{Allocation: nodesize.Allocation{Size: small}}
)

func TestResizeWaitsForTheJobs(t *testing.T) {
	l, _ := play(slurmdLife(), readied...)
	l, actions := play(l, grown)
	require.Equal(t, Resizing, l.Phase)
	require.Equal(t, []Action{AskNode{Number: l.question, Need: certain}}, actions)
	l, actions = play(l, Answered{Node: record(busy)})
	require.Equal(t, []Action{Change{Number: l.question, Verb: DrainNode, Reason: reasonResize}}, actions)
	l, _ = play(l, Done{}, TimerFired{})
	for range watchedTries {
		l, actions = play(l, Answered{Node: record(busy, ourDrain)})
		require.NotContains(t, actions, SignalMain{SigHup}, "nothing that runs is touched")
		l, _ = play(l, TimerFired{})
	}
	l, actions = play(l, Answered{Node: record(busy, ourDrain)})
	require.Equal(t, []Action{Arm{l.timer, WatchedPause}}, actions, "the end of a step is waited for, not asked for")
	require.True(t, l.Phase.Serving())
	l, actions = play(l, StepsEnded{}, TimerFired{})
	require.Equal(t, []Action{AskNode{Number: l.question, Need: certain}}, actions)
	l, actions = play(l, Answered{Node: record(ourDrain)})
	require.Equal(t, []Action{Change{Number: l.question, Verb: DeleteNode}}, actions)
	l, actions = play(l, Done{})
	require.Equal(t, []Action{Arm{l.timer, min(l.Deadlines.End, replaceTime)}, SignalMain{SigTerm}}, actions)
	l, actions = play(l, MainExited{PID: 7})
	require.Equal(t, []Action{StartMain{}}, actions)
	l, _ = play(l, MainStarted{PID: 8, At: epoch}, MainReady{}, TimerFired{}, Answered{Node: record(bigger)})
	require.Equal(t, Ready, l.Phase)
}

// TestNextSlurmd: a slurmd that does not stop keeps the node from its work.
func TestNextSlurmd(t *testing.T) {
	l := slurmdLife()
	l.Deadlines = NewDeadlines(24*time.Hour, 0)
	l, _ = play(l, append(registered, Answered{Node: record()})...)
	l, actions := play(l, Outdated{})
	require.Equal(t, []Action{Arm{l.timer, replaceTime}, SignalMain{SigTerm}}, actions)
	l, actions = play(l, TimerFired{})
	require.Equal(t, []Action{SignalMain{SigKill}}, actions)
	_, actions = play(l, MainExited{PID: 7})
	require.Equal(t, []Action{StartMain{}}, actions)
}

func TestResizeAndBack(t *testing.T) {
	l, _ := play(slurmdLife(), append(readied, grown, Answered{Node: record(busy)}, Done{}, TimerFired{}, Answered{Node: record(busy, ourDrain)})...)
	l, _ = play(l, back)
	l, actions := play(l, Answered{Node: record(busy, ourDrain)})
	require.Equal(t, []Action{Change{Number: l.question, Verb: ResumeNode}}, actions)
	l, _ = play(l, Done{}, Answered{Node: record(busy)})
	require.Equal(t, Ready, l.Phase)
	require.Equal(t, 7, l.Main, "slurmd was not disturbed")
}

func TestResizeOfADrainedNodeKeepsTheAdminsDrain(t *testing.T) {
	l, _ := play(slurmdLife(), append(readied, grown)...)
	l, actions := play(l, Answered{Node: record(anAdmins)})
	require.Equal(t, Resizing, l.Phase)
	require.Equal(t, []Action{Arm{l.timer, backoff.FirstTry}}, actions)
	require.Contains(t, l.Reason, "bad disk")
}

func TestResizeBeforeReady(t *testing.T) {
	l, _ := play(slurmdLife(), append(up, grown)...)
	require.Equal(t, Starting, l.Phase)
	l, _ = play(l, MainReady{}, TimerFired{})
	l, actions := play(l, Answered{Node: record()})
	require.Equal(t, Change{Number: l.question, Verb: DrainNode, Reason: reasonResize}, actions[0], "slurmd was started with the old size")
}

func TestWhatCannotBeReadChangesNothing(t *testing.T) {
	l, _ := play(slurmdLife(), readied...)
	l, actions := play(l, Measured{Err: errors.New("cpu.max: no")})
	require.Empty(t, actions)
	require.Equal(t, Ready, l.Phase)
	require.Equal(t, small, l.Size)
	require.Equal(t, "cpu.max: no", l.Fault)
	l, actions = play(l, back)
	require.Empty(t, actions)
	require.Empty(t, l.Fault)
}

func TestABadDescriptionAtTheStartIsWaitedOut(t *testing.T) {
	l := slurmdLife()
	l.Held = "annotations: no"
	l, actions := play(l, Begun{})
	require.Empty(t, actions, "nothing is registered wrong")
	require.Equal(t, "annotations: no", l.Reason)
	l, _ = play(l, Measured{Err: errors.New("annotations: no, still")})
	require.Equal(t, "annotations: no, still", l.Reason)
	_, actions = play(l, back)
	require.Equal(t, []Action{Reach{1}}, actions)
}

// weighted is an edit of the annotation slurmlet.dev/weight.
func weighted(weight string) Measured {
	now := back
	now.Traits.Weight = nodesize.Trait{Value: weight, Source: "annotations"}
	return now
}

func weight(n int64) func(*slurm.Node) { return func(r *slurm.Node) { r.Weight = n } }

func TestTraitsAreAppliedLive(t *testing.T) {
	l, _ := play(slurmdLife(), readied...)
	l, actions := play(l, weighted("5"))
	require.Equal(t, Ready, l.Phase)
	require.Equal(t, []Action{AskNode{Number: l.question}}, actions)
	l, actions = play(l, Answered{Node: record(busy, weight(1))})
	require.Equal(t, []Action{Change{Number: l.question, Verb: UpdateNode, Fields: []string{"weight=5"}}}, actions)

	away, actions := play(l, Done{Err: fmt.Errorf("away: %w", slurm.ErrUnreachable)})
	require.Equal(t, []Action{Arm{l.timer + 1, backoff.FirstTry}}, actions, "no answer is no refusal")
	_, actions = play(away, TimerFired{})
	require.IsType(t, AskNode{}, actions[0])

	refused, actions := play(l, Done{Err: errors.New("no such parameter")})
	require.Empty(t, actions)
	require.Equal(t, Ready, refused.Phase)
	require.Equal(t, "no such parameter", refused.Refusal)
	refused, actions = play(refused, weighted("5"))
	require.Empty(t, actions, "what was refused is not tried again")

	l, _ = play(l, Done{})
	l, actions = play(l, weighted("5"))
	require.Empty(t, actions)
	l, _ = play(l, back)
	l, actions = play(l, Answered{Node: record(busy, weight(5))})
	require.Equal(t, []Action{Change{Number: l.question, Verb: UpdateNode, Fields: []string{"weight=1"}}}, actions, "removed: Slurm's default")
	_, actions = play(refused, back)
	require.IsType(t, AskNode{}, actions[0])
}

func TestAnEditOfTheTraitsDuringAnother(t *testing.T) {
	l, _ := play(slurmdLife(), append(readied, weighted("5"), Answered{Node: record(weight(1))}, weighted("1"))...)
	l, actions := play(l, Answered{Node: record(weight(5))})
	require.Equal(t, []Action{Change{Number: l.question, Verb: UpdateNode, Fields: []string{"weight=1"}}}, actions)
}

func TestAnOlderRecordGetsTheTraitsBeforeReady(t *testing.T) {
	life := slurmdLife()
	life.Traits.Features = nodesize.Trait{Value: "a,b", Source: "labels"}
	l, _ := play(life, registered...)
	l, actions := play(l, Answered{Node: record(func(n *slurm.Node) { n.Features = []string{"c"} })})
	require.Equal(t, []Action{Change{Number: l.question, Verb: UpdateNode, Fields: []string{"availablefeatures=a,b", "activefeatures=a,b"}}}, actions)
	require.Equal(t, Starting, l.Phase)
	l, _ = play(l, Done{})
	require.Equal(t, Ready, l.Phase)
	l, _ = play(l, MainChanged{PID: 8, At: epoch.Add(time.Minute)})
	require.Equal(t, Reloading, l.Phase)
}
