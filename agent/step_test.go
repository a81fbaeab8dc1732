package agent

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

var (
	small = nodesize.Size{CPUs: 1, RealMemory: 448}
	epoch = time.Date(2026, 11, 21, 1, 2, 3, 500_000_000, time.UTC)
)

func slurmdLife() life {
	return newLife(plan{registers: true, restarts: true, announces: true, reaches: true, way: newWayDown(30*time.Second, 0)}, nodesize.Allocation{Size: small})
}

func slurmctldLife() life {
	return newLife(plan{announces: true, way: newWayDown(30*time.Second, 0)}, nodesize.Allocation{})
}

// record is a node record; it starts as that of small, seen with the slurmd of epoch.
func record(change ...func(*slurm.Node)) *slurm.Node {
	n := &slurm.Node{
		Name: "n1", State: []string{"IDLE", "DYNAMIC_NORM"}, CPUs: 1, EffectiveCPUs: 1, RealMemory: 448,
		SlurmdStart: slurm.Time{Time: epoch.Truncate(time.Second)},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func bigger(n *slurm.Node)   { n.CPUs, n.EffectiveCPUs = 4, 4 }
func busy(n *slurm.Node)     { n.State = []string{"MIXED", "DYNAMIC_NORM"} }
func ourDrain(n *slurm.Node) { n.State, n.Reason = append(n.State, "DRAIN"), reasonResize }
func anAdmins(n *slurm.Node) { n.State, n.Reason = append(n.State, "DRAIN"), "bad disk" }
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
func stale(n *slurm.Node) { n.SlurmdStart.Time = epoch.Add(-time.Minute) }
func down(n *slurm.Node)  { n.State = []string{"DOWN", "DYNAMIC_NORM", "NOT_RESPONDING"} }

// play feeds events to a life; a number of 0 in an answer stands for the open
// question, and in a timer for the armed one.
func play(l life, events ...event) (life, []action) {
	var last []action
	for _, e := range events {
		switch typed := e.(type) {
		case answered:
			typed.number = l.question
			e = typed
		case lostSought:
			typed.number = l.question
			e = typed
		case carriedOut:
			typed.number = l.question
			e = typed
		case timerFired:
			e = timerFired{l.timer}
		}
		l, last = step(l, e)
	}
	return l, last
}

var (
	up         = []event{begun{}, answered{}, mainStarted{pid: 7, at: epoch}}
	registered = append(up, mainReady{}, timerFired{})
)

func TestSlurmdComesUp(t *testing.T) {
	l, actions := play(slurmdLife(), begun{})
	require.Equal(t, []action{reach{1}}, actions)
	l, actions = play(l, answered{err: errors.New("connection refused")})
	require.Equal(t, []action{arm{1, firstTry}}, actions)
	require.Equal(t, "connection refused", l.reason)
	l, actions = play(l, timerFired{})
	require.Equal(t, []action{reach{2}}, actions)
	l, actions = play(l, answered{})
	require.Equal(t, []action{startMain{}}, actions)
	l, actions = play(l, mainStarted{pid: 7, at: epoch}, mainReady{})
	require.Equal(t, []action{arm{2, settle}}, actions)
	l, actions = play(l, timerFired{})
	require.Equal(t, []action{ask{3}}, actions)
	require.Equal(t, Starting, l.state, "READY is not yet a registration")
	l, _ = play(l, answered{node: record()})
	require.Equal(t, Ready, l.state)
}

func TestSlurmctldComesUp(t *testing.T) {
	l, actions := play(slurmctldLife(), begun{})
	require.Equal(t, []action{startMain{}}, actions)
	l, _ = play(l, mainStarted{pid: 7, at: epoch}, mainReady{}, timerFired{}, answered{err: errors.New("no answer")})
	require.Equal(t, Starting, l.state)
	l, _ = play(l, timerFired{}, answered{})
	require.Equal(t, Ready, l.state)
}

// TestRecord is what the agent does about the record that it finds once slurmd has said READY.
func TestRecord(t *testing.T) {
	for name, c := range map[string]struct {
		found  *slurm.Node
		state  State
		doing  doing
		action action
		reason string
	}{
		"the right one":                       {record(), Ready, nothing, nil, ""},
		"the right one, jobs go on":           {record(busy), Ready, nothing, arm{2, missedAfter}, ""},
		"the right one, drained by an admin":  {record(anAdmins), Ready, nothing, nil, ""},
		"the right one, drained by an agent":  {record(ourDrain), Starting, resuming, resumeRecord{3}, ""},
		"none":                                {nil, Starting, confirming, arm{2, firstTry}, "no record of this node yet"},
		"of an earlier slurmd":                {record(stale), Starting, confirming, arm{2, firstTry}, "has not seen this slurmd yet"},
		"down still":                          {record(down), Starting, confirming, arm{2, firstTry}, "DOWN+DYNAMIC_NORM+NOT_RESPONDING"},
		"another size":                        {record(bigger), Starting, leaving, drainRecord{3, reasonResize}, "CPUTot is 4, not 1"},
		"another size, busy":                  {record(bigger, busy), Starting, leaving, drainRecord{3, reasonResize}, "draining it"},
		"another size, busy and drained":      {record(bigger, busy, ourDrain), Starting, leaving, arm{2, firstTry}, "jobs run on it"},
		"another size, drained":               {record(bigger, ourDrain), Starting, deleting, deleteRecord{3}, "another size"},
		"another size, drained by an admin":   {record(bigger, anAdmins), Starting, leaving, arm{2, firstTry}, "somebody else has drained the node, which would be lost with the record: bad disk"},
		"refused over GPUs":                   {record(noGPUs), Starting, leaving, arm{2, firstTry}, "(0 < 2): the cluster's gres.conf must say"},
		"refused over GPUs that it had":       {record(noGPUs, bigger), Starting, deleting, deleteRecord{3}, "another size"},
		"refused over GPUs before":            {record(foundGPUs), Starting, resuming, resumeRecord{3}, ""},
		"refused by slurmctld":                {record(tooSmall), Starting, deleting, deleteRecord{3}, "refused what slurmd registered: Low socket"},
		"refused by slurmctld, jobs go on":    {record(busy, tooSmall), Starting, leaving, arm{2, firstTry}, "jobs run on it"},
		"refused, but an admin's drain stays": {record(tooSmall, func(n *slurm.Node) { n.Reason = "bad disk" }), Starting, leaving, arm{2, firstTry}, "bad disk"},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := play(slurmdLife(), registered...)
			l, actions := play(l, answered{node: c.found})
			assert.Equal(t, c.state, l.state)
			assert.Equal(t, c.doing, l.doing)
			assert.Contains(t, l.reason, c.reason)
			if c.action == nil {
				assert.Empty(t, actions)
			} else {
				assert.Equal(t, []action{c.action}, actions)
			}
		})
	}
}

func TestResize(t *testing.T) {
	l, _ := play(slurmdLife(), registered...)
	l, _ = play(l, answered{node: record(bigger, ourDrain)}) // deletes
	l, actions := play(l, carriedOut{err: slurm.ErrBusy})
	require.Equal(t, []action{arm{2, firstTry}}, actions, "a job was quicker: look again")
	l, _ = play(l, timerFired{}, answered{node: record(bigger, ourDrain)})
	l, actions = play(l, carriedOut{})
	require.Equal(t, []action{arm{3, min(l.way.End, replaceTime)}, signalMain{sigTerm}}, actions, "slurmd of a deleted record is an orphan")
	l, actions = play(l, mainExited{pid: 7})
	require.Equal(t, []action{startMain{}}, actions)
	l, _ = play(l, mainStarted{pid: 8, at: epoch}, mainReady{}, timerFired{}, answered{node: record()})
	require.Equal(t, Ready, l.state)
	require.Zero(t, l.starts, "this was no failure")
}

func TestLostRecordMakesSlurmdRegisterAgain(t *testing.T) {
	l, _ := play(slurmdLife(), registered...)
	var actions []action
	for range lostTries {
		l, actions = play(l, timerFired{}, answered{})
	}
	require.Contains(t, actions, signalMain{sigHup})
	require.Contains(t, l.reason, "MaxNodeCount")
}

func TestABusyRecordIsRegisteredAgainOnce(t *testing.T) {
	l, _ := play(slurmdLife(), registered...)
	hups := 0
	for range 3 * missedTries {
		var actions []action
		l, actions = play(l, answered{node: record(bigger, busy, ourDrain)})
		if slices.Contains(actions, action(signalMain{sigHup})) {
			hups++
		}
		l, _ = play(l, timerFired{})
	}
	require.Equal(t, 1, hups, "jobs that do run are not to be disturbed for ever")
}

func TestReconfigure(t *testing.T) {
	l, _ := play(slurmdLife(), append(registered, answered{node: record()}, mainChanged{pid: 8, at: epoch.Add(time.Minute)})...)
	require.Equal(t, Reloading, l.state)
	l, actions := play(l, mainExited{pid: 7})
	require.Empty(t, actions, "the old one's end is expected")
	l, _ = play(l, answered{node: record()})
	require.Equal(t, Reloading, l.state, "the record is that of the old slurmd")
	l, _ = play(l, timerFired{}, answered{node: record(func(n *slurm.Node) { n.SlurmdStart.Time = epoch.Add(time.Minute) })})
	require.Equal(t, Ready, l.state)
	require.Equal(t, 8, l.main)
}

func TestDaemonEnds(t *testing.T) {
	ended := mainExited{pid: 7, code: 137, what: "killed by SIGKILL"}
	l, actions := play(slurmctldLife(), begun{}, mainStarted{pid: 7}, ended)
	require.Equal(t, []action{exit{137}}, actions, "slurmctld's end is the container's")
	require.Equal(t, Exited, l.state)

	l, _ = play(slurmdLife(), append(registered, answered{node: record()})...)
	for _, pause := range []time.Duration{100, 200, 400, 800, 1600} {
		l, actions = play(l, ended)
		require.Equal(t, []action{arm{l.timer, pause * time.Millisecond}}, actions)
		require.Equal(t, "killed by SIGKILL", l.reason)
		l, _ = play(l, timerFired{}, answered{}, mainStarted{pid: 7, at: epoch})
	}
	long := ended
	long.uptime = steady
	_, actions = play(l, long)
	require.Equal(t, []action{arm{l.timer + 1, firstPause}}, actions, "a steady daemon's end is a first failure")
}

func TestAnswersAboutADeadDaemonAreStale(t *testing.T) {
	l, _ := play(slurmdLife(), registered...)
	asked := l.question
	l, _ = play(l, mainExited{pid: 7})
	l, _ = step(l, answered{number: asked, node: record()})
	require.Equal(t, Starting, l.state)
}

// TestStopLimit: slurmd has its time before the agent's own ends, whenever the
// stop begins.
func TestStopLimit(t *testing.T) {
	l := slurmdLife()
	for stage, c := range map[stage]struct{ want, latest time.Duration }{
		toWait:    {15 * time.Second, l.way.Requeue},
		toSignal:  {15 * time.Second, l.way.Requeue},
		toRequeue: {3750 * time.Millisecond, l.way.Kill},
		toFail:    {3750 * time.Millisecond, l.way.Leave},
		toStop:    {3750 * time.Millisecond, l.way.Stop},
	} {
		l.stage = stage
		require.Equal(t, c.want, l.stopLimit(), "%d", stage)
		require.LessOrEqual(t, c.latest+l.stopLimit(), l.way.End, "%d", stage)
	}
}

// TestClockSteppedBack: slurmd, whose first look at the clock came after the step, has
// registered an earlier start than the agent had expected of it.
func TestClockSteppedBack(t *testing.T) {
	earlier := epoch.Add(-time.Hour)
	stepped := func(n *slurm.Node) { n.SlurmdStart = slurm.Time{Time: earlier.Truncate(time.Second)} }
	l, _ := play(slurmdLife(), append(registered, answered{node: record(stepped), main: 7, began: earlier})...)
	require.Equal(t, Ready, l.state)

	for name, e := range map[string]answered{
		"the clock is right":          {node: record(stepped), main: 7, began: epoch},
		"another slurmd was asked of": {node: record(stepped), main: 6, began: earlier},
		"nothing is known of it":      {node: record(stepped)},
	} {
		l, _ = play(slurmdLife(), append(registered, e)...)
		require.Equal(t, Starting, l.state, "%s: the record is that of an earlier slurmd", name)
	}

	l, _ = play(isTerminated(), mainExited{pid: 7}, timerFired{}, answered{}, mainStarted{pid: 8, at: epoch.Add(time.Hour)}, mainReady{}, timerFired{})
	l, actions := play(l, answered{node: record(), main: 8, began: epoch})
	require.Contains(t, actions, action(deleteRecord{l.question}), "on the way down as well")
}

func TestStop(t *testing.T) {
	for name, c := range map[string]struct {
		life   life
		before []event
		first  []action
		code   int
	}{
		"slurmd before slurmctld is reached": {slurmdLife(), []event{begun{}}, []action{exit{0}}, 0},
		"slurmd pausing":                     {slurmdLife(), append(up, mainExited{pid: 7, code: 1}), []action{exit{0}}, 0},
		"slurmd before READY":                {slurmdLife(), up, []action{arm{1, 15 * time.Second}, signalMain{sigTerm}}, 0},
		"slurmctld":                          {slurmctldLife(), []event{begun{}, mainStarted{pid: 7}}, []action{arm{1, 29 * time.Second}, signalMain{sigTerm}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := play(c.life, c.before...)
			l, actions := play(l, terminated{signal: "SIGTERM"})
			require.Equal(t, c.first, actions)
			l, actions = play(l, terminated{signal: "SIGTERM"})
			require.Empty(t, actions, "a second signal shortens nothing")
			l, _ = play(l, mainExited{pid: 7, code: c.code})
			require.Equal(t, Exited, l.state)
			require.Equal(t, c.code, l.code)
		})
	}
}

func TestStopOfADaemonThatStays(t *testing.T) {
	l, _ := play(slurmctldLife(), begun{}, mainStarted{pid: 7}, terminated{signal: "SIGTERM"})
	l, actions := play(l, timerFired{})
	require.Equal(t, []action{arm{2, 500 * time.Millisecond}, signalMain{sigKill}}, actions)
	killed, _ := play(l, mainExited{pid: 7, code: 137})
	require.Equal(t, 137, killed.code)
	immortal, _ := play(l, timerFired{})
	require.Equal(t, Exited, immortal.state)
}

func TestStopDuringAHandOver(t *testing.T) {
	l, _ := play(slurmctldLife(), begun{}, mainStarted{pid: 7}, terminated{signal: "SIGTERM"})
	l, actions := play(l, mainChanged{pid: 8})
	require.Equal(t, []action{signalMain{sigTerm}}, actions, "the new one has not got the signal")
	l, actions = play(l, mainExited{pid: 7})
	require.Empty(t, actions)
	l, _ = play(l, mainExited{pid: 8})
	require.Equal(t, Exited, l.state)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestUnclaimedJobs: of a job that slurmctld counts on a fresh container's node, and of which nothing runs, slurmctld is made to hear.
func TestUnclaimedJobs(t *testing.T) {
	for name, c := range map[string]struct {
		found answered
		again bool
	}{
		"a job that nothing is left of": {answered{node: record(busy)}, true},
		"a job that runs":               {answered{node: record(busy), steps: 1}, false},
		"no job":                        {answered{node: record()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, actions := play(slurmdLife(), append(registered, c.found)...)
			require.Equal(t, Ready, l.state)
			if !c.again {
				require.Empty(t, actions)
				return
			}
			require.Equal(t, []action{arm{l.timer, missedAfter}}, actions)
			l, actions = play(l, timerFired{})
			require.Equal(t, []action{seekLost{l.question}}, actions)
			l, actions = play(l, lostSought{lost: []string{"3"}})
			require.Equal(t, []action{signalMain{sigHup}}, actions)
			l, actions = play(l, mainChanged{pid: 8, at: epoch}, answered{node: record()})
			require.Equal(t, Ready, l.state)
			require.Equal(t, []action{arm{l.timer, missedAfter}}, actions, "it looks whether that was of use")
			_, actions = play(l, timerFired{}, lostSought{}, timerFired{})
			require.Empty(t, actions)
		})
	}
}

// TestSlurmctldStartsAnew: what it was about to start when it was stopped has never come here.
func TestSlurmctldStartsAnew(t *testing.T) {
	serving, _ := play(slurmdLife(), append(registered, answered{node: record()})...)
	seeking, _ := play(serving, controllerLost{}, timerFired{})
	for name, c := range map[string]struct {
		life   life
		events []event
		then   action // nil for nothing
	}{
		"a node waits first":               {serving, []event{controllerLost{}}, arm{serving.timer + 1, missedAfter}},
		"and looks then":                   {serving, []event{controllerLost{}, timerFired{}}, seekLost{serving.question + 1}},
		"a job is missing":                 {seeking, []event{lostSought{lost: []string{"3"}}}, signalMain{sigHup}},
		"no job is missing":                {seeking, []event{lostSought{}}, nil},
		"slurmctld does not answer yet":    {seeking, []event{lostSought{err: errors.New("refused")}}, arm{seeking.timer + 1, missedAfter}},
		"a job that is never found":        {seeking, []event{lostSought{lost: []string{"3"}}, timerFired{}, lostSought{lost: []string{"3"}}, timerFired{}, lostSought{lost: []string{"3"}}, timerFired{}}, nil},
		"the pod is on its way down":       {seeking, []event{terminated{signal: "SIGTERM"}, lostSought{lost: []string{"3"}}}, nil},
		"it is on its way down already":    {serving, []event{terminated{signal: "SIGTERM"}, controllerLost{}}, nil},
		"the node is still to be Ready":    {slurmdLife(), append([]event{controllerLost{}}, append(registered, answered{node: record()})...), arm{2, missedAfter}},
		"a login pod has no jobs to count": {newLife(plan{announces: true, hosts: true}, nodesize.Allocation{}), []event{controllerLost{}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, actions := play(c.life, c.events...)
			if c.then == nil {
				require.Empty(t, actions)
				return
			}
			require.Equal(t, []action{c.then}, actions)
		})
	}
}

// TestRefusedGres: slurmd found fewer than it was to register, until gres.conf says where they are.
func TestRefusedGres(t *testing.T) {
	l, _ := play(slurmdLife(), registered...)
	l.gresConf = "/run/slurmlet/gres.conf"
	l, _ = play(l, answered{node: record(noGPUs)})
	assert.Equal(t, `slurmctld has refused what slurmd registered: gres/gpu count reported lower than configured (0 < 2): the cluster's gres.conf must say "Include /run/slurmlet/gres.conf"`, l.reason)
	l, actions := play(l, timerFired{}, answered{node: record(foundGPUs)})
	assert.Equal(t, []action{resumeRecord{l.question}}, actions)
}
