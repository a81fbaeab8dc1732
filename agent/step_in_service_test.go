package agent

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// activities are all that a node can be doing when SIGTERM comes, and how it gets there.
var activities = []struct {
	name   string
	events []event
	state  State
	doing  doing
	// then is what it does after SIGTERM.
	then doing
	// dropped: it has never been in service, or slurmctld has deleted its record.
	dropped bool
}{
	{"never started, slurmctld cannot be reached", []event{begun{}, answered{err: errors.New("no")}}, Starting, reaching, "", true},
	{"never started, and now it is", []event{begun{}, answered{}}, Starting, launching, ending, true},
	{"never READY, slurmd died", []event{begun{}, answered{}, mainStarted{pid: 7, at: epoch}, mainExited{pid: 7}}, Starting, pausing, "", true},
	{"READY", slices.Concat(up, []event{mainReady{}}), Starting, confirming, withdrawing, false},
	{"an old record is waited for", after(answered{node: record(bigger, busy, ourDrain)}), Starting, leaving, withdrawing, false},
	{"an old record is being deleted", after(answered{node: record(bigger, ourDrain)}), Starting, deleting, withdrawing, false},
	{"an old record is deleted", after(answered{node: record(bigger, ourDrain)}, carriedOut{}), Starting, replacing, ending, true},
	{"Ready", after(answered{node: record()}), Ready, nothing, withdrawing, false},
	{"Ready, traits are described", after(answered{node: record()}, measured{Allocation: nodesize.Allocation{Size: small, Traits: nodesize.Traits{Weight: nodesize.Trait{Value: "5", Source: "annotations"}}}}), Ready, describing, withdrawing, false},
	{"a configuration was missed", after(answered{node: record()}, outdated{}), Reloading, replacing, replacing, false},
	{"a configuration is fetched again", after(answered{node: record()}, outdated{}, mainExited{pid: 7}), Starting, launching, launching, false},
	{"keys have changed", after(answered{node: record()}, filesChanged{restart: true}), Ready, replacing, replacing, false},
	{"slurmd died", after(answered{node: record()}, mainExited{pid: 7}), Starting, pausing, reaching, false},
	{"slurmd died, and slurmctld is away", after(answered{node: record()}, mainExited{pid: 7}, timerFired{}, answered{err: errors.New("no")}), Starting, reaching, reaching, false},
	{"slurmd died, and is started again", after(answered{node: record()}, mainExited{pid: 7}, timerFired{}, answered{}), Starting, launching, launching, false},
	{"slurmd died, and is READY again", after(answered{node: record()}, mainExited{pid: 7}, timerFired{}, answered{}, mainStarted{pid: 8, at: epoch}, mainReady{}), Starting, confirming, withdrawing, false},
	{"slurmd has handed over", after(answered{node: record()}, mainChanged{pid: 8, at: epoch}), Reloading, confirming, withdrawing, false},
	{"resizing, its jobs run", after(answered{node: record()}, measured{Allocation: nodesize.Allocation{Size: larger}}, answered{node: record(busy)}), Resizing, leaving, withdrawing, false},
	{"resizing, the record is deleted", after(answered{node: record()}, measured{Allocation: nodesize.Allocation{Size: larger}}, answered{node: record(ourDrain)}, carriedOut{}), Resizing, replacing, ending, true},
	{"resizing, keys have changed", after(answered{node: record()}, measured{Allocation: nodesize.Allocation{Size: larger}}, answered{node: record(busy)}, filesChanged{restart: true}), Resizing, replacing, replacing, false},
	{"resizing, slurmd is started anew", after(answered{node: record()}, measured{Allocation: nodesize.Allocation{Size: larger}}, answered{node: record(ourDrain)}, carriedOut{}, mainExited{pid: 7}, mainStarted{pid: 8, at: epoch}), Starting, launching, launching, false},
}

// after is what follows a registration.
func after(events ...event) []event { return slices.Concat(registered, events) }

var larger = nodesize.Size{CPUs: 4}

// TestInServiceWhateverItDoes: a node that was in service, and whose record is not
// deleted, is taken out of it in order, whatever it is doing when SIGTERM comes.
func TestInServiceWhateverItDoes(t *testing.T) {
	for _, a := range activities {
		t.Run(a.name, func(t *testing.T) {
			l, _ := play(slurmdLife(), a.events...)
			require.Equal(t, a.state, l.state)
			require.Equal(t, a.doing, l.doing)
			l, actions := play(l, terminated{signal: "SIGTERM"})
			require.Equal(t, a.then, l.doing)
			if !a.dropped {
				require.Contains(t, actions, schedule{toRequeue, l.way.Requeue})
				require.Contains(t, actions, schedule{toStop, l.way.Stop})
			}
		})
	}
}

// TestSlurmdIsBackOnTheWayDown: a node whose slurmd was away when SIGTERM came is
// drained as soon as slurmctld can be asked, and its steps live until then.
func TestSlurmdIsBackOnTheWayDown(t *testing.T) {
	away := answered{err: errors.New("no"), steps: 1}
	for _, a := range activities {
		if a.dropped {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			l, _ := play(slurmdLife(), slices.Concat(a.events, []event{terminated{signal: "SIGTERM"}})...)
			for range 3 * lonelyTries {
				if l.main != 0 {
					l, _ = play(l, mainExited{pid: l.main})
				}
				if l.doing == launching {
					l, _ = play(l, mainFailed{errors.New("no")})
				}
				l, _ = play(l, timerFired{}, away)
				require.Equal(t, Stopping, l.state)
				require.NotEqual(t, ending, l.doing, "a step runs")
			}
			l, _ = play(l, deadline{toRequeue}, deadline{toKill}, timerFired{}, answered{steps: 1})
			require.Equal(t, launching, l.doing)
			l, _ = play(l, mainStarted{pid: 9, at: epoch.Add(time.Minute)}, mainReady{}, timerFired{})
			require.Equal(t, withdrawing, l.doing)
			l, actions := play(l, answered{node: record(busy), steps: 1})
			require.Contains(t, actions, action(drainRecord{l.question, reasonTerminate}))
			l, actions = play(l, carriedOut{}, answered{node: record(busy, terminating), steps: 1})
			require.Contains(t, actions, action(requeueJobs{l.question}))
		})
	}
}

func notResponding(n *slurm.Node) { n.State = append(n.State, "NOT_RESPONDING") }
