package lifecycle

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// activities are all that a node can be doing when SIGTERM comes, and how it gets there.
var activities = []struct {
	name   string
	events []Event
	state  Phase
	doing  Activity
	// then is what it does after SIGTERM.
	then Activity
	// dropped: it has never been in service, or slurmctld has deleted its record.
	dropped bool
}{
	{"never started, slurmctld cannot be reached", []Event{Begun{}, Answered{Err: errors.New("no")}}, Starting, Reaching, Idle, true},
	{"never started, and now it is", []Event{Begun{}, Answered{}}, Starting, Launching, Ending, true},
	{"never READY, slurmd died", []Event{Begun{}, Answered{}, MainStarted{PID: 7, At: epoch}, MainExited{PID: 7}}, Starting, Pausing, Idle, true},
	{"READY", slices.Concat(up, []Event{MainReady{}}), Starting, Confirming, LookingAtRecord, false},
	{"an old record is waited for", after(Answered{Node: record(bigger, busy, ourDrain)}), Starting, Leaving, LookingAtRecord, false},
	{"an old record is being deleted", after(Answered{Node: record(bigger, ourDrain)}), Starting, Deleting, LookingAtRecord, false},
	{"an old record is deleted", after(Answered{Node: record(bigger, ourDrain)}, Done{}), Starting, Replacing, Ending, true},
	{"Ready", after(Answered{Node: record()}), Ready, Idle, LookingAtRecord, false},
	{"Ready, traits are described", after(Answered{Node: record()}, Measured{Allocation: nodesize.Allocation{Size: small, Traits: nodesize.Traits{Weight: nodesize.Trait{Value: "5", Source: "annotations"}}}}), Ready, Describing, LookingAtRecord, false},
	{"a configuration was missed", after(Answered{Node: record()}, Outdated{}), Reloading, Replacing, Replacing, false},
	{"a configuration is fetched again", after(Answered{Node: record()}, Outdated{}, MainExited{PID: 7}), Starting, Launching, Launching, false},
	{"keys have changed", after(Answered{Node: record()}, FilesChanged{Restart: true}), Ready, Replacing, Replacing, false},
	{"slurmd died", after(Answered{Node: record()}, MainExited{PID: 7}), Starting, Pausing, Reaching, false},
	{"slurmd died, and slurmctld is away", after(Answered{Node: record()}, MainExited{PID: 7}, TimerFired{}, Answered{Err: errors.New("no")}), Starting, Reaching, Reaching, false},
	{"slurmd died, and is started again", after(Answered{Node: record()}, MainExited{PID: 7}, TimerFired{}, Answered{}), Starting, Launching, Launching, false},
	{"slurmd died, and is READY again", after(Answered{Node: record()}, MainExited{PID: 7}, TimerFired{}, Answered{}, MainStarted{PID: 8, At: epoch}, MainReady{}), Starting, Confirming, LookingAtRecord, false},
	{"slurmd has handed over", after(Answered{Node: record()}, MainChanged{PID: 8, At: epoch}), Reloading, Confirming, LookingAtRecord, false},
	{"resizing, it is drained", after(Answered{Node: record()}, Measured{Allocation: nodesize.Allocation{Size: larger}}, Answered{Node: record(busy)}), Resizing, Draining, LookingAtRecord, false},
	{"resizing, its jobs run", after(Answered{Node: record()}, Measured{Allocation: nodesize.Allocation{Size: larger}}, Answered{Node: record(busy)}, Done{}), Resizing, Leaving, LookingAtRecord, false},
	{"resizing, the record is deleted", after(Answered{Node: record()}, Measured{Allocation: nodesize.Allocation{Size: larger}}, Answered{Node: record(ourDrain)}, Done{}), Resizing, Replacing, Ending, true},
	{"resizing, keys have changed", after(Answered{Node: record()}, Measured{Allocation: nodesize.Allocation{Size: larger}}, Answered{Node: record(busy)}, FilesChanged{Restart: true}), Resizing, Replacing, Replacing, false},
	{"resizing, slurmd is started anew", after(Answered{Node: record()}, Measured{Allocation: nodesize.Allocation{Size: larger}}, Answered{Node: record(ourDrain)}, Done{}, MainExited{PID: 7}, MainStarted{PID: 8, At: epoch}), Starting, Launching, Launching, false},
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
			l, actions := play(l, Terminated{Signal: "SIGTERM"})
			require.Equal(t, a.then, l.Activity)
			if !a.dropped {
				require.Contains(t, actions, Schedule{toRequeue, l.Deadlines.Requeue})
				require.Contains(t, actions, Schedule{toStop, l.Deadlines.Stop})
			}
		})
	}
}

// TestSlurmdIsBackOnTheWayDown: a node whose slurmd was away when SIGTERM came is
// drained as soon as slurmctld can be asked, and its steps live until then.
func TestSlurmdIsBackOnTheWayDown(t *testing.T) {
	away := Answered{Err: errors.New("no"), Steps: 1}
	for _, a := range activities {
		if a.dropped {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			l, _ := play(slurmdLife(), slices.Concat(a.events, []Event{Terminated{Signal: "SIGTERM"}})...)
			for range 3 * lonelyTries {
				if l.Main != 0 {
					l, _ = play(l, MainExited{PID: l.Main})
				}
				if l.Activity == Launching {
					l, _ = play(l, MainFailed{errors.New("no")})
				}
				l, _ = play(l, TimerFired{}, away)
				require.Equal(t, Stopping, l.Phase)
				require.NotEqual(t, Ending, l.Activity, "a step runs")
			}
			l, _ = play(l, DeadlinePassed{toRequeue}, DeadlinePassed{toKill}, TimerFired{}, Answered{Steps: 1})
			require.Equal(t, Launching, l.Activity)
			l, _ = play(l, MainStarted{PID: 9, At: epoch.Add(time.Minute)}, MainReady{}, TimerFired{})
			require.Equal(t, LookingAtRecord, l.Activity)
			l, actions := play(l, Answered{Node: record(busy), Steps: 1})
			require.Contains(t, actions, Action(Change{Number: l.question, Verb: DrainNode, Reason: reasons.Terminating}))
			l, actions = play(l, Done{}, Answered{Node: record(busy, terminating), Steps: 1})
			require.Contains(t, actions, Action(Change{Number: l.question, Verb: RequeueJobs}))
		})
	}
}

func notResponding(n *slurm.Node) { n.State = append(n.State, "NOT_RESPONDING") }
