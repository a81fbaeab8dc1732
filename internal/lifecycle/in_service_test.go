package lifecycle

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// activities are all that a node can be doing when SIGTERM comes, and how it gets there.
var activities = []struct {
	name   string
	events []Event
	state  supervisor.Phase
	doing  supervisor.Activity
	// then is what it does after SIGTERM.
	then supervisor.Activity
	// dropped: it has never been in service, or slurmctld has deleted its record.
	dropped bool
}{
	{"never started, slurmctld cannot be reached", []Event{supervisor.Begun{}, node.Answered{Err: errors.New("no")}}, supervisor.Starting, supervisor.Reaching, supervisor.Idle, true},
	{"never started, and now it is", []Event{supervisor.Begun{}, node.Answered{}}, supervisor.Starting, supervisor.Launching, supervisor.Ending, true},
	{"never READY, slurmd died", []Event{supervisor.Begun{}, node.Answered{}, supervisor.MainStarted{PID: 7, At: epoch}, supervisor.MainExited{PID: 7}}, supervisor.Starting, supervisor.Pausing, supervisor.Idle, true},
	{"READY", slices.Concat(up, []Event{supervisor.MainReady{}}), supervisor.Starting, supervisor.Confirming, supervisor.LookingAtRecord, false},
	{"an old record is waited for", after(node.Answered{Node: record(bigger, busy, ourDrain)}), supervisor.Starting, supervisor.Leaving, supervisor.LookingAtRecord, false},
	{"an old record is being deleted", after(node.Answered{Node: record(bigger, ourDrain)}), supervisor.Starting, supervisor.Deleting, supervisor.LookingAtRecord, false},
	{"an old record is deleted", after(node.Answered{Node: record(bigger, ourDrain)}, node.Done{}), supervisor.Starting, supervisor.Replacing, supervisor.Ending, true},
	{"Ready", after(node.Answered{Node: record()}), supervisor.Ready, supervisor.Idle, supervisor.LookingAtRecord, false},
	{"Ready, traits are described", after(node.Answered{Node: record()}, node.Measured{Allocation: nodesize.Allocation{Size: small, Traits: nodesize.Traits{Weight: nodesize.Trait{Value: "5", Source: "annotations"}}}}), supervisor.Ready, supervisor.Describing, supervisor.LookingAtRecord, false},
	{"a configuration was missed", after(node.Answered{Node: record()}, supervisor.Outdated{}), supervisor.Reloading, supervisor.Replacing, supervisor.Replacing, false},
	{"a configuration is fetched again", after(node.Answered{Node: record()}, supervisor.Outdated{}, supervisor.MainExited{PID: 7}), supervisor.Starting, supervisor.Launching, supervisor.Launching, false},
	{"keys have changed", after(node.Answered{Node: record()}, supervisor.FilesChanged{Restart: true}), supervisor.Ready, supervisor.Replacing, supervisor.Replacing, false},
	{"slurmd died", after(node.Answered{Node: record()}, supervisor.MainExited{PID: 7}), supervisor.Starting, supervisor.Pausing, supervisor.Reaching, false},
	{"slurmd died, and slurmctld is away", after(node.Answered{Node: record()}, supervisor.MainExited{PID: 7}, supervisor.TimerFired{}, node.Answered{Err: errors.New("no")}), supervisor.Starting, supervisor.Reaching, supervisor.Reaching, false},
	{"slurmd died, and is started again", after(node.Answered{Node: record()}, supervisor.MainExited{PID: 7}, supervisor.TimerFired{}, node.Answered{}), supervisor.Starting, supervisor.Launching, supervisor.Launching, false},
	{"slurmd died, and is READY again", after(node.Answered{Node: record()}, supervisor.MainExited{PID: 7}, supervisor.TimerFired{}, node.Answered{}, supervisor.MainStarted{PID: 8, At: epoch}, supervisor.MainReady{}), supervisor.Starting, supervisor.Confirming, supervisor.LookingAtRecord, false},
	{"slurmd has handed over", after(node.Answered{Node: record()}, supervisor.MainChanged{PID: 8, At: epoch}), supervisor.Reloading, supervisor.Confirming, supervisor.LookingAtRecord, false},
	{"resizing, it is drained", after(node.Answered{Node: record()}, node.Measured{Allocation: nodesize.Allocation{Size: larger}}, node.Answered{Node: record(busy)}), supervisor.Resizing, supervisor.Draining, supervisor.LookingAtRecord, false},
	{"resizing, its jobs run", after(node.Answered{Node: record()}, node.Measured{Allocation: nodesize.Allocation{Size: larger}}, node.Answered{Node: record(busy)}, node.Done{}), supervisor.Resizing, supervisor.Leaving, supervisor.LookingAtRecord, false},
	{"resizing, the record is deleted", after(node.Answered{Node: record()}, node.Measured{Allocation: nodesize.Allocation{Size: larger}}, node.Answered{Node: record(ourDrain)}, node.Done{}), supervisor.Resizing, supervisor.Replacing, supervisor.Ending, true},
	{"resizing, keys have changed", after(node.Answered{Node: record()}, node.Measured{Allocation: nodesize.Allocation{Size: larger}}, node.Answered{Node: record(busy)}, supervisor.FilesChanged{Restart: true}), supervisor.Resizing, supervisor.Replacing, supervisor.Replacing, false},
	{"resizing, slurmd is started anew", after(node.Answered{Node: record()}, node.Measured{Allocation: nodesize.Allocation{Size: larger}}, node.Answered{Node: record(ourDrain)}, node.Done{}, supervisor.MainExited{PID: 7}, supervisor.MainStarted{PID: 8, At: epoch}), supervisor.Starting, supervisor.Launching, supervisor.Launching, false},
}

// after is what follows a registration.
func after(events ...Event) []Event { return slices.Concat(registered, events) }

var larger = nodesize.Size{CPUs: 4}

// TestInServiceWhateverItDoes: a node that was in service, and whose record is not
// deleted, is taken out of it in order, whatever it is doing when SIGTERM comes.
func TestInServiceWhateverItDoes(t *testing.T) {
	for _, a := range activities {
		t.Run(a.name, func(t *testing.T) {
			l, _ := play(slurmdLife(), a.events...)
			require.Equal(t, a.state, l.Phase)
			require.Equal(t, a.doing, l.Activity)
			l, actions := play(l, supervisor.Terminated{Signal: "SIGTERM"})
			require.Equal(t, a.then, l.Activity)
			if !a.dropped {
				require.Contains(t, actions, deadlines.Schedule{Stage: deadlines.Requeue, After: l.Deadlines.Requeue})
				require.Contains(t, actions, deadlines.Schedule{Stage: deadlines.Stop, After: l.Deadlines.Stop})
			}
		})
	}
}

// TestSlurmdIsBackOnTheWayDown: a node whose slurmd was away when SIGTERM came is
// drained as soon as slurmctld can be asked, and its steps live until then.
func TestSlurmdIsBackOnTheWayDown(t *testing.T) {
	away := node.Answered{Err: errors.New("no"), Steps: 1}
	for _, a := range activities {
		if a.dropped {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			l, _ := play(slurmdLife(), slices.Concat(a.events, []Event{supervisor.Terminated{Signal: "SIGTERM"}})...)
			for range 3 * node.TriesWithoutSteps {
				if l.Main != 0 {
					l, _ = play(l, supervisor.MainExited{PID: l.Main})
				}
				if l.Activity == supervisor.Launching {
					l, _ = play(l, supervisor.MainFailed{Err: errors.New("no")})
				}
				l, _ = play(l, supervisor.TimerFired{}, away)
				require.Equal(t, supervisor.Stopping, l.Phase)
				require.NotEqual(t, supervisor.Ending, l.Activity, "a step runs")
			}
			l, _ = play(l, deadlines.DeadlinePassed{Stage: deadlines.Requeue}, deadlines.DeadlinePassed{Stage: deadlines.Kill}, supervisor.TimerFired{}, node.Answered{Steps: 1})
			require.Equal(t, supervisor.Launching, l.Activity)
			l, _ = play(l, supervisor.MainStarted{PID: 9, At: epoch.Add(time.Minute)}, supervisor.MainReady{}, supervisor.TimerFired{})
			require.Equal(t, supervisor.LookingAtRecord, l.Activity)
			l, actions := play(l, node.Answered{Node: record(busy), Steps: 1})
			require.Contains(t, actions, Action(node.Change{Number: l.Question, Verb: node.DrainNode, Reason: reasons.Terminating}))
			l, actions = play(l, node.Done{}, node.Answered{Node: record(busy, terminating), Steps: 1})
			require.Contains(t, actions, Action(node.Change{Number: l.Question, Verb: node.RequeueJobs}))
		})
	}
}

func notResponding(n *slurm.Node) { n.State = append(n.State, "NOT_RESPONDING") }
