package lifecycle

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

var (
	small = nodesize.Size{CPUs: 1, RealMemory: 448}
	epoch = time.Date(2026, 11, 21, 1, 2, 3, 500_000_000, time.UTC)
)

func slurmdLife() State {
	return New(Plan{
		Role: Role{Registers: true}, Plan: supervised("restarts announces reaches"), Deadlines: deadlines.New(30*time.Second, 0),
	}, nodesize.Allocation{Size: small})
}

// record is a node record; it starts as that of small, seen with the slurmd of epoch.
func record(change ...func(*slurm.Node)) *slurm.Node {
	n := &slurm.Node{
		Name: "n1", State: []string{"IDLE", "DYNAMIC_NORM"}, CPUs: 1, CPUsEffective: 1, RealMemory: 448,
		SlurmdStartAt: slurm.TimeOf(epoch), NodeDetail: &slurm.NodeDetail{},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func bigger(n *slurm.Node)     { n.CPUs, n.CPUsEffective = 4, 4 }
func busy(n *slurm.Node)       { n.State = []string{"MIXED", "DYNAMIC_NORM"} }
func completing(n *slurm.Node) { n.State = []string{"IDLE", "DYNAMIC_NORM", "COMPLETING"} }
func suspended(n *slurm.Node)  { n.Suspended = []string{"5"} }
func reserved(n *slurm.Node)   { n.State = append(n.State, "RESERVED") }
func ourDrain(n *slurm.Node)   { n.State, n.Reason = append(n.State, "DRAIN"), reasons.Resized }
func relaunched(n *slurm.Node) { n.State, n.Reason = append(n.State, "DRAIN"), reasons.DuplicateJob }
func anAdmins(n *slurm.Node)   { n.State, n.Reason = append(n.State, "DRAIN"), "bad disk" }
func tooSmall(n *slurm.Node) {
	n.State, n.Reason = append(n.State, "DRAIN", "INVALID_REG"), "Low socket*core*thread count, Low CPUs"
}

// noGPUs: gres.conf did not tell slurmd where they are; foundGPUs: now it does, and slurmctld's drain has stayed.
func noGPUs(n *slurm.Node) {
	n.State, n.Reason = append(n.State, "DRAIN", "INVALID_REG"), "gres/gpu count reported lower than configured (0 < 2)"
}

func foundGPUs(n *slurm.Node) {
	noGPUs(n)
	n.State = n.State[:len(n.State)-1]
}

// cloud is a record that slurmctld starts and ends; is gives it a flag.
func cloud(n *slurm.Node) { n.State = append(n.State, "CLOUD") }

func is(flag string) func(*slurm.Node) {
	return func(n *slurm.Node) { n.State = append(n.State, flag) }
}

func stale(n *slurm.Node) { n.SlurmdStartAt = slurm.TimeOf(epoch.Add(-time.Minute)) }
func down(n *slurm.Node)  { n.State = []string{"DOWN", "DYNAMIC_NORM", "NOT_RESPONDING"} }

// play feeds events to a life; a number of 0 in an answer stands for the open
// question, and in a timer for the armed one.
func play(l State, events ...Event) (State, []Action) {
	var last []Action
	for _, e := range events {
		switch typed := e.(type) {
		case node.Answered:
			typed.Number = l.Question
			e = typed
		case node.LostJobsFound:
			typed.Number = l.Question
			e = typed
		case node.Done:
			typed.Number = l.Question
			e = typed
		case supervisor.TimerFired:
			e = supervisor.TimerFired{Number: l.Timer}
		}
		l, last = Step(l, e)
	}
	return l, last
}

var (
	up         = []Event{supervisor.Begun{}, node.Answered{}, supervisor.MainStarted{PID: 7, At: epoch}}
	registered = append(up, supervisor.MainReady{}, supervisor.TimerFired{})
)

// TestRecord is what the agent does about the record that it finds once slurmd has said READY.
func TestRecord(t *testing.T) {
	for name, c := range map[string]struct {
		found  *slurm.Node
		state  supervisor.Phase
		doing  supervisor.Activity
		action Action
		reason string
	}{
		"the right one":                       {record(), supervisor.Ready, supervisor.Idle, nil, ""},
		"the right one, jobs go on":           {record(busy), supervisor.Ready, supervisor.Idle, supervisor.Arm{Number: 2, After: node.MissedAfter}, ""},
		"the right one, drained by an admin":  {record(anAdmins), supervisor.Ready, supervisor.Idle, nil, ""},
		"the right one, drained by an agent":  {record(ourDrain), supervisor.Starting, supervisor.Resuming, node.Change{Number: 3, Verb: node.ResumeNode}, ""},
		"none":                                {nil, supervisor.Starting, supervisor.Confirming, supervisor.Arm{Number: 2, After: backoff.FirstTry}, "no record of this node yet"},
		"of an earlier slurmd":                {record(stale), supervisor.Starting, supervisor.Confirming, supervisor.Arm{Number: 2, After: backoff.FirstTry}, "has not seen this slurmd yet"},
		"down still":                          {record(down), supervisor.Starting, supervisor.Confirming, supervisor.Arm{Number: 2, After: backoff.FirstTry}, "DOWN+DYNAMIC_NORM+NOT_RESPONDING"},
		"another size":                        {record(bigger), supervisor.Starting, supervisor.Draining, node.Change{Number: 3, Verb: node.DrainNode, Reason: reasons.Resized}, "CPUTot is 4, not 1"},
		"another size, busy":                  {record(bigger, busy), supervisor.Starting, supervisor.Draining, node.Change{Number: 3, Verb: node.DrainNode, Reason: reasons.Resized}, "draining it"},
		"another size, busy and drained":      {record(bigger, busy, ourDrain), supervisor.Starting, supervisor.Leaving, supervisor.Arm{Number: 2, After: backoff.FirstTry}, "jobs run on it"},
		"another size, drained":               {record(bigger, ourDrain), supervisor.Starting, supervisor.Deleting, node.Change{Number: 3, Verb: node.RenewNode}, "another size"},
		"another size, drained by an admin":   {record(bigger, anAdmins), supervisor.Starting, supervisor.Leaving, supervisor.Arm{Number: 2, After: backoff.FirstTry}, "somebody else has drained the node, which would be lost with the record: bad disk"},
		"refused over GPUs":                   {record(noGPUs), supervisor.Starting, supervisor.Leaving, supervisor.Arm{Number: 2, After: backoff.FirstTry}, "(0 < 2): the cluster's gres.conf must say"},
		"refused over GPUs that it had":       {record(noGPUs, bigger), supervisor.Starting, supervisor.Deleting, node.Change{Number: 3, Verb: node.RenewNode}, "another size"},
		"refused over GPUs before":            {record(foundGPUs), supervisor.Starting, supervisor.Resuming, node.Change{Number: 3, Verb: node.ResumeNode}, ""},
		"refused by slurmctld":                {record(tooSmall), supervisor.Starting, supervisor.Deleting, node.Change{Number: 3, Verb: node.RenewNode}, "refused what slurmd registered: Low socket"},
		"refused by slurmctld, jobs go on":    {record(busy, tooSmall), supervisor.Starting, supervisor.Leaving, supervisor.Arm{Number: 2, After: backoff.FirstTry}, "jobs run on it"},
		"refused, but an admin's drain stays": {record(tooSmall, func(n *slurm.Node) { n.Reason = "bad disk" }), supervisor.Starting, supervisor.Leaving, supervisor.Arm{Number: 2, After: backoff.FirstTry}, "bad disk"},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := play(slurmdLife(), registered...)
			l, actions := play(l, node.Answered{Node: c.found})
			assert.Equal(t, c.state, l.Phase)
			assert.Equal(t, c.doing, l.Activity)
			assert.Contains(t, l.Reason, c.reason)
			var want []Action
			if c.state == supervisor.Ready {
				want = append(want, node.CompareCluster{})
			}
			if c.action != nil {
				want = append(want, c.action)
			}
			assert.Equal(t, want, actions)
		})
	}
}

func TestLostRecordMakesSlurmdRegisterAgain(t *testing.T) {
	l, _ := play(slurmdLife(), registered...)
	var actions []Action
	for range node.LostTries {
		l, actions = play(l, supervisor.TimerFired{}, node.Answered{})
	}
	require.Contains(t, actions, supervisor.SignalMain{Signal: supervisor.SigHup})
	require.Contains(t, l.Reason, "MaxNodeCount")
}

func TestABusyRecordIsRegisteredAgainOnce(t *testing.T) {
	l, _ := play(slurmdLife(), registered...)
	hups := 0
	for range 3 * node.MissedTries {
		var actions []Action
		l, actions = play(l, node.Answered{Node: record(bigger, busy, ourDrain)})
		if slices.Contains(actions, Action(supervisor.SignalMain{Signal: supervisor.SigHup})) {
			hups++
		}
		l, _ = play(l, supervisor.TimerFired{})
	}
	require.Equal(t, 1, hups, "jobs that do run are not to be disturbed for ever")
}

var errNo = errors.New("no")
