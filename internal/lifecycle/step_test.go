package lifecycle

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/backoff"
	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

var (
	small = nodesize.Size{CPUs: 1, RealMemory: 448}
	epoch = time.Date(2026, 11, 21, 1, 2, 3, 500_000_000, time.UTC)
)

func slurmdLife() State {
	return New(Plan{Registers: true, Restarts: true, Announces: true, Reaches: true, Deadlines: NewDeadlines(30*time.Second, 0)}, nodesize.Allocation{Size: small})
}

func slurmctldLife() State {
	return New(Plan{Announces: true, Deadlines: NewDeadlines(30*time.Second, 0)}, nodesize.Allocation{})
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
func play(l State, events ...Event) (State, []Action) {
	var last []Action
	for _, e := range events {
		switch typed := e.(type) {
		case Answered:
			typed.Number = l.question
			e = typed
		case LostJobsFound:
			typed.Number = l.question
			e = typed
		case Done:
			typed.Number = l.question
			e = typed
		case TimerFired:
			e = TimerFired{l.timer}
		}
		l, last = Step(l, e)
	}
	return l, last
}

var (
	up         = []Event{Begun{}, Answered{}, MainStarted{PID: 7, At: epoch}}
	registered = append(up, MainReady{}, TimerFired{})
)

func TestSlurmdComesUp(t *testing.T) {
	l, actions := play(slurmdLife(), Begun{})
	require.Equal(t, []Action{Reach{1}}, actions)
	l, actions = play(l, Answered{Err: errors.New("connection refused")})
	require.Equal(t, []Action{Arm{1, backoff.FirstTry}}, actions)
	require.Equal(t, "connection refused", l.Reason)
	l, actions = play(l, TimerFired{})
	require.Equal(t, []Action{Reach{2}}, actions)
	l, actions = play(l, Answered{})
	require.Equal(t, []Action{StartMain{}}, actions)
	l, actions = play(l, MainStarted{PID: 7, At: epoch}, MainReady{})
	require.Equal(t, []Action{Arm{2, settle}}, actions)
	l, actions = play(l, TimerFired{})
	require.Equal(t, []Action{AskNode{Number: 3}}, actions)
	require.Equal(t, Starting, l.Phase, "READY is not yet a registration")
	l, _ = play(l, Answered{Node: record()})
	require.Equal(t, Ready, l.Phase)
}

func TestSlurmctldComesUp(t *testing.T) {
	l, actions := play(slurmctldLife(), Begun{})
	require.Equal(t, []Action{StartMain{}}, actions)
	l, _ = play(l, MainStarted{PID: 7, At: epoch}, MainReady{}, TimerFired{}, Answered{Err: errors.New("no answer")})
	require.Equal(t, Starting, l.Phase)
	l, _ = play(l, TimerFired{}, Answered{})
	require.Equal(t, Ready, l.Phase)
}

// TestRecord is what the agent does about the record that it finds once slurmd has said READY.
func TestRecord(t *testing.T) {
	for name, c := range map[string]struct {
		found  *slurm.Node
		state  Phase
		doing  Activity
		action Action
		reason string
	}{
		"the right one":                       {record(), Ready, Idle, nil, ""},
		"the right one, jobs go on":           {record(busy), Ready, Idle, Arm{2, missedAfter}, ""},
		"the right one, drained by an admin":  {record(anAdmins), Ready, Idle, nil, ""},
		"the right one, drained by an agent":  {record(ourDrain), Starting, Resuming, Change{Number: 3, Verb: ResumeNode}, ""},
		"none":                                {nil, Starting, Confirming, Arm{2, backoff.FirstTry}, "no record of this node yet"},
		"of an earlier slurmd":                {record(stale), Starting, Confirming, Arm{2, backoff.FirstTry}, "has not seen this slurmd yet"},
		"down still":                          {record(down), Starting, Confirming, Arm{2, backoff.FirstTry}, "DOWN+DYNAMIC_NORM+NOT_RESPONDING"},
		"another size":                        {record(bigger), Starting, Leaving, Change{Number: 3, Verb: DrainNode, Reason: reasonResize}, "CPUTot is 4, not 1"},
		"another size, busy":                  {record(bigger, busy), Starting, Leaving, Change{Number: 3, Verb: DrainNode, Reason: reasonResize}, "draining it"},
		"another size, busy and drained":      {record(bigger, busy, ourDrain), Starting, Leaving, Arm{2, backoff.FirstTry}, "jobs run on it"},
		"another size, drained":               {record(bigger, ourDrain), Starting, Deleting, Change{Number: 3, Verb: DeleteNode}, "another size"},
		"another size, drained by an admin":   {record(bigger, anAdmins), Starting, Leaving, Arm{2, backoff.FirstTry}, "somebody else has drained the node, which would be lost with the record: bad disk"},
		"refused over GPUs":                   {record(noGPUs), Starting, Leaving, Arm{2, backoff.FirstTry}, "(0 < 2): the cluster's gres.conf must say"},
		"refused over GPUs that it had":       {record(noGPUs, bigger), Starting, Deleting, Change{Number: 3, Verb: DeleteNode}, "another size"},
		"refused over GPUs before":            {record(foundGPUs), Starting, Resuming, Change{Number: 3, Verb: ResumeNode}, ""},
		"refused by slurmctld":                {record(tooSmall), Starting, Deleting, Change{Number: 3, Verb: DeleteNode}, "refused what slurmd registered: Low socket"},
		"refused by slurmctld, jobs go on":    {record(busy, tooSmall), Starting, Leaving, Arm{2, backoff.FirstTry}, "jobs run on it"},
		"refused, but an admin's drain stays": {record(tooSmall, func(n *slurm.Node) { n.Reason = "bad disk" }), Starting, Leaving, Arm{2, backoff.FirstTry}, "bad disk"},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := play(slurmdLife(), registered...)
			l, actions := play(l, Answered{Node: c.found})
			assert.Equal(t, c.state, l.Phase)
			assert.Equal(t, c.doing, l.Activity)
			assert.Contains(t, l.Reason, c.reason)
			var want []Action
			if c.state == Ready {
				want = append(want, CompareCluster{})
			}
			if c.action != nil {
				want = append(want, c.action)
			}
			assert.Equal(t, want, actions)
		})
	}
}

func TestResize(t *testing.T) {
	l, _ := play(slurmdLife(), registered...)
	l, _ = play(l, Answered{Node: record(bigger, ourDrain)}) // deletes
	l, actions := play(l, Done{Err: slurm.ErrBusy})
	require.Equal(t, []Action{Arm{2, backoff.FirstTry}}, actions, "a job was quicker: look again")
	l, _ = play(l, TimerFired{}, Answered{Node: record(bigger, ourDrain)})
	l, actions = play(l, Done{})
	require.Equal(t, []Action{Arm{3, min(l.Deadlines.End, replaceTime)}, SignalMain{SigTerm}}, actions, "slurmd of a deleted record is an orphan")
	l, actions = play(l, MainExited{PID: 7})
	require.Equal(t, []Action{StartMain{}}, actions)
	l, _ = play(l, MainStarted{PID: 8, At: epoch}, MainReady{}, TimerFired{}, Answered{Node: record()})
	require.Equal(t, Ready, l.Phase)
	require.Zero(t, l.Starts, "this was no failure")
}

func TestLostRecordMakesSlurmdRegisterAgain(t *testing.T) {
	l, _ := play(slurmdLife(), registered...)
	var actions []Action
	for range lostTries {
		l, actions = play(l, TimerFired{}, Answered{})
	}
	require.Contains(t, actions, SignalMain{SigHup})
	require.Contains(t, l.Reason, "MaxNodeCount")
}

func TestABusyRecordIsRegisteredAgainOnce(t *testing.T) {
	l, _ := play(slurmdLife(), registered...)
	hups := 0
	for range 3 * missedTries {
		var actions []Action
		l, actions = play(l, Answered{Node: record(bigger, busy, ourDrain)})
		if slices.Contains(actions, Action(SignalMain{SigHup})) {
			hups++
		}
		l, _ = play(l, TimerFired{})
	}
	require.Equal(t, 1, hups, "jobs that do run are not to be disturbed for ever")
}

func TestReconfigure(t *testing.T) {
	l, _ := play(slurmdLife(), append(registered, Answered{Node: record()}, MainChanged{PID: 8, At: epoch.Add(time.Minute)})...)
	require.Equal(t, Reloading, l.Phase)
	l, actions := play(l, MainExited{PID: 7})
	require.Empty(t, actions, "the old one's end is expected")
	l, actions = play(l, TimerFired{})
	require.Equal(t, []Action{AskNode{Number: l.question}}, actions, "its predecessor has registered the same")
	for _, refused := range []*slurm.Node{record(bigger), record(noGPUs), record(tooSmall), record(down), nil} {
		other, _ := play(l, Answered{Node: refused})
		require.NotEqual(t, Ready, other.Phase)
	}
	l, _ = play(l, Answered{Node: record()})
	require.Equal(t, Ready, l.Phase)
	require.Equal(t, 8, l.Main)
	l, actions = play(l, Terminated{Signal: "SIGTERM", Idle: true})
	require.Contains(t, actions, Change{Number: l.question, Verb: DeleteNode})
}

// TestReconfigureBeforeTheRecordIsSeen: what no slurmd has registered yet has to be seen.
func TestReconfigureBeforeTheRecordIsSeen(t *testing.T) {
	l, _ := play(slurmdLife(), append(registered, MainChanged{PID: 8, At: epoch.Add(time.Minute)})...)
	l, _ = play(l, Answered{Node: record()})
	require.Equal(t, Starting, l.Phase, "the record is that of an earlier slurmd")
	l, actions := play(l, TimerFired{})
	require.Equal(t, []Action{AskNode{Number: l.question, Need: Need{Start: true}}}, actions)
	l, _ = play(l, Answered{Node: record(func(n *slurm.Node) { n.SlurmdStart.Time = epoch.Add(time.Minute) })})
	require.Equal(t, Ready, l.Phase)
}

// TestSigtermAfterAReconfigure: the successor's registration would make the record anew.
func TestSigtermAfterAReconfigure(t *testing.T) {
	l, _ := play(isReady(), MainChanged{PID: 8, At: epoch.Add(time.Minute)}, Terminated{Signal: "SIGTERM", Idle: true})
	l, _ = play(l, Answered{Node: record()})
	require.Equal(t, Withdrawing, l.Activity)
	l, actions := play(l, TimerFired{})
	require.Equal(t, []Action{AskJobs{Number: l.question, Need: Need{Start: true}}}, actions)
}

func TestDaemonEnds(t *testing.T) {
	ended := MainExited{PID: 7, Code: 137, What: "killed by SIGKILL"}
	l, actions := play(slurmctldLife(), Begun{}, MainStarted{PID: 7}, ended)
	require.Equal(t, []Action{Exit{137}}, actions, "slurmctld's end is the container's")
	require.Equal(t, Exited, l.Phase)

	l, _ = play(slurmdLife(), append(registered, Answered{Node: record()})...)
	for _, pause := range []time.Duration{100, 200, 400, 800, 1600} {
		l, actions = play(l, ended)
		require.Equal(t, []Action{Arm{l.timer, pause * time.Millisecond}}, actions)
		require.Equal(t, "killed by SIGKILL", l.Reason)
		l, _ = play(l, TimerFired{}, Answered{}, MainStarted{PID: 7, At: epoch})
	}
	long := ended
	long.Uptime = backoff.Steady
	_, actions = play(l, long)
	require.Equal(t, []Action{Arm{l.timer + 1, backoff.FirstPause}}, actions, "a backoff.Steady daemon's end is a first failure")
}

func TestAnswersAboutADeadDaemonAreStale(t *testing.T) {
	l, _ := play(slurmdLife(), registered...)
	asked := l.question
	l, _ = play(l, MainExited{PID: 7})
	l, _ = Step(l, Answered{Number: asked, Node: record()})
	require.Equal(t, Starting, l.Phase)
}

// TestStopLimit: slurmd has its time before the agent's own ends, whenever the
// stop begins.
func TestStopLimit(t *testing.T) {
	l := slurmdLife()
	for stage, c := range map[Stage]struct{ want, latest time.Duration }{
		toWait:    {15 * time.Second, l.Deadlines.Requeue},
		toSignal:  {15 * time.Second, l.Deadlines.Requeue},
		toRequeue: {3750 * time.Millisecond, l.Deadlines.Kill},
		toFail:    {3750 * time.Millisecond, l.Deadlines.Leave},
		toStop:    {3750 * time.Millisecond, l.Deadlines.Stop},
	} {
		l.stage = stage
		require.Equal(t, c.want, l.stopLimit(), "%d", stage)
		require.LessOrEqual(t, c.latest+l.stopLimit(), l.Deadlines.End, "%d", stage)
	}
}

// TestClockSteppedBack: slurmd, whose first look at the clock came after the step, has
// registered an earlier start than the agent had expected of it.
func TestClockSteppedBack(t *testing.T) {
	earlier := epoch.Add(-time.Hour)
	stepped := func(n *slurm.Node) { n.SlurmdStart = slurm.Time{Time: earlier.Truncate(time.Second)} }
	l, _ := play(slurmdLife(), append(registered, Answered{Node: record(stepped), Main: 7, Began: earlier})...)
	require.Equal(t, Ready, l.Phase)

	for name, e := range map[string]Answered{
		"the clock is right":          {Node: record(stepped), Main: 7, Began: epoch},
		"another slurmd was asked of": {Node: record(stepped), Main: 6, Began: earlier},
		"nothing is known of it":      {Node: record(stepped)},
	} {
		l, _ = play(slurmdLife(), append(registered, e)...)
		require.Equal(t, Starting, l.Phase, "%s: the record is that of an earlier slurmd", name)
	}

	l, _ = play(isTerminated(), MainExited{PID: 7}, TimerFired{}, Answered{}, MainStarted{PID: 8, At: epoch.Add(time.Hour)}, MainReady{}, TimerFired{})
	l, actions := play(l, Answered{Node: record(), Main: 8, Began: epoch})
	require.Contains(t, actions, Action(Change{Number: l.question, Verb: DeleteNode}), "on the way down as well")
}

func TestStop(t *testing.T) {
	for name, c := range map[string]struct {
		life   State
		before []Event
		first  []Action
		code   int
	}{
		"slurmd before slurmctld is reached": {slurmdLife(), []Event{Begun{}}, []Action{Exit{0}}, 0},
		"slurmd pausing":                     {slurmdLife(), append(up, MainExited{PID: 7, Code: 1}), []Action{Exit{0}}, 0},
		"slurmd before READY":                {slurmdLife(), up, []Action{Arm{1, 15 * time.Second}, SignalMain{SigTerm}}, 0},
		"slurmctld":                          {slurmctldLife(), []Event{Begun{}, MainStarted{PID: 7}}, []Action{Arm{1, 29 * time.Second}, SignalMain{SigTerm}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := play(c.life, c.before...)
			l, actions := play(l, Terminated{Signal: "SIGTERM"})
			require.Equal(t, c.first, actions)
			l, actions = play(l, Terminated{Signal: "SIGTERM"})
			require.Empty(t, actions, "a second signal shortens nothing")
			l, _ = play(l, MainExited{PID: 7, Code: c.code})
			require.Equal(t, Exited, l.Phase)
			require.Equal(t, c.code, l.Code)
		})
	}
}

func TestStopOfADaemonThatStays(t *testing.T) {
	l, _ := play(slurmctldLife(), Begun{}, MainStarted{PID: 7}, Terminated{Signal: "SIGTERM"})
	l, actions := play(l, TimerFired{})
	require.Equal(t, []Action{Arm{2, 500 * time.Millisecond}, SignalMain{SigKill}}, actions)
	killed, _ := play(l, MainExited{PID: 7, Code: 137})
	require.Equal(t, 137, killed.Code)
	immortal, _ := play(l, TimerFired{})
	require.Equal(t, Exited, immortal.Phase)
}

func TestStopDuringAHandOver(t *testing.T) {
	l, _ := play(slurmctldLife(), Begun{}, MainStarted{PID: 7}, Terminated{Signal: "SIGTERM"})
	l, actions := play(l, MainChanged{PID: 8})
	require.Equal(t, []Action{SignalMain{SigTerm}}, actions, "the new one has not got the signal")
	l, actions = play(l, MainExited{PID: 7})
	require.Empty(t, actions)
	l, _ = play(l, MainExited{PID: 8})
	require.Equal(t, Exited, l.Phase)
}

// TestUnclaimedJobs: of a job that slurmctld counts on a fresh container's node, and of which nothing runs, slurmctld is made to hear.
func TestUnclaimedJobs(t *testing.T) {
	for name, c := range map[string]struct {
		found Answered
		again bool
	}{
		"a job that nothing is left of": {Answered{Node: record(busy)}, true},
		"a job that runs":               {Answered{Node: record(busy), Steps: 1}, false},
		"no job":                        {Answered{Node: record()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, actions := play(slurmdLife(), append(registered, c.found)...)
			require.Equal(t, Ready, l.Phase)
			if !c.again {
				require.Equal(t, []Action{CompareCluster{}}, actions)
				return
			}
			require.Equal(t, []Action{CompareCluster{}, Arm{l.timer, missedAfter}}, actions)
			l, actions = play(l, TimerFired{})
			require.Equal(t, []Action{FindLostJobs{l.question}}, actions)
			l, actions = play(l, LostJobsFound{Lost: []string{"3"}})
			require.Equal(t, []Action{SignalMain{SigHup}}, actions)
			l, actions = play(l, MainChanged{PID: 8, At: epoch}, Answered{Node: record()})
			require.Equal(t, Ready, l.Phase)
			require.Equal(t, []Action{CompareCluster{}, Arm{l.timer, missedAfter}}, actions, "it looks whether that was of use")
			_, actions = play(l, TimerFired{}, LostJobsFound{}, TimerFired{})
			require.Empty(t, actions)
		})
	}
}

// TestStepsLeftBehind: beside jobs of its own, a fresh container looks for what has died with an earlier one.
func TestStepsLeftBehind(t *testing.T) {
	l := slurmdLife()
	l.Inherits = true
	runs := Answered{Node: record(busy), Steps: 1}
	l, actions := play(l, append(registered, runs, Done{}, runs)...)
	require.Equal(t, Ready, l.Phase)
	require.Equal(t, []Action{CompareCluster{}, Arm{l.timer, missedAfter}}, actions)
}

// TestSlurmdDiesWithALaunch: other jobs run on, and the one that was being launched is looked for.
func TestSlurmdDiesWithALaunch(t *testing.T) {
	serving, _ := play(slurmdLife(), append(registered, Answered{Node: record()})...)
	again := []Event{MainExited{PID: 7, Code: 137, What: "killed by SIGKILL"}, TimerFired{}, Answered{}, MainStarted{PID: 8, At: epoch}, MainReady{}, TimerFired{}}
	l, actions := play(serving, append(again, Answered{Node: record(busy), Steps: 1})...)
	require.Equal(t, Ready, l.Phase)
	require.Equal(t, []Action{CompareCluster{}, Arm{l.timer, missedAfter}}, actions)
	_, actions = play(l, TimerFired{})
	require.Equal(t, []Action{FindLostJobs{l.question + 1}}, actions)
	_, actions = play(serving, append(again, Answered{Node: record()})...)
	require.Equal(t, []Action{CompareCluster{}}, actions, "an idle node costs slurmctld no question")
}

// TestSlurmctldStartsAnew: what it was about to start when it was stopped has never come here.
func TestSlurmctldStartsAnew(t *testing.T) {
	serving, _ := play(slurmdLife(), append(registered, Answered{Node: record()})...)
	seeking, _ := play(serving, ControllerLost{}, TimerFired{})
	for name, c := range map[string]struct {
		life   State
		events []Event
		then   Action // nil for nothing
	}{
		"a node waits first":               {serving, []Event{ControllerLost{}}, Arm{serving.timer + 1, missedAfter}},
		"and looks then":                   {serving, []Event{ControllerLost{}, TimerFired{}}, FindLostJobs{serving.question + 1}},
		"a job is missing":                 {seeking, []Event{LostJobsFound{Lost: []string{"3"}}}, SignalMain{SigHup}},
		"no job is missing":                {seeking, []Event{LostJobsFound{}}, nil},
		"slurmctld does not answer yet":    {seeking, []Event{LostJobsFound{Err: errors.New("refused")}}, Arm{seeking.timer + 1, missedAfter}},
		"a job that is never found":        {seeking, []Event{LostJobsFound{Lost: []string{"3"}}, TimerFired{}, LostJobsFound{Lost: []string{"3"}}, TimerFired{}, LostJobsFound{Lost: []string{"3"}}, TimerFired{}}, nil},
		"the pod is on its way down":       {seeking, []Event{Terminated{Signal: "SIGTERM"}, LostJobsFound{Lost: []string{"3"}}}, nil},
		"it is on its way down already":    {serving, []Event{Terminated{Signal: "SIGTERM"}, ControllerLost{}}, nil},
		"the node is still to be Ready":    {slurmdLife(), append([]Event{ControllerLost{}}, append(registered, Answered{Node: record()})...), Arm{2, missedAfter}},
		"a login pod has no jobs to count": {New(Plan{Announces: true, Hosts: true}, nodesize.Allocation{}), []Event{ControllerLost{}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, actions := play(c.life, c.events...)
			if c.then == nil {
				require.Empty(t, actions)
				return
			}
			require.Equal(t, c.then, actions[len(actions)-1])
		})
	}
}

// TestRefusedGres: slurmd found fewer than it was to register, until gres.conf says where they are.
func TestRefusedGres(t *testing.T) {
	l, _ := play(slurmdLife(), registered...)
	l.GresConf = "/run/slurmlet/gres.conf"
	l, _ = play(l, Answered{Node: record(noGPUs)})
	assert.Equal(t, `slurmctld has refused what slurmd registered: gres/gpu count reported lower than configured (0 < 2): the cluster's gres.conf must say "Include /run/slurmlet/gres.conf"`, l.Reason)
	l, actions := play(l, TimerFired{}, Answered{Node: record(foundGPUs)})
	assert.Equal(t, []Action{Change{Number: l.question, Verb: ResumeNode}}, actions)
}

// TestDatabaseIsAwaited: slurmdbd starts when its database answers, and what it
// complains of later is asked for without an end of its service.
func TestDatabaseIsAwaited(t *testing.T) {
	awaiting := New(Plan{Restarts: true, Reaches: true, Deadlines: NewDeadlines(0, 0)}, nodesize.Allocation{})
	l, actions := play(awaiting, Begun{}, Answered{Err: errNo})
	require.Equal(t, []any{Starting, Reaching, errNo.Error()}, []any{l.Phase, l.Activity, l.Reason})
	require.Equal(t, []Action{Arm{1, backoff.FirstTry}}, actions)
	l, actions = play(l, TimerFired{}, Answered{}, MainStarted{PID: 7, At: epoch})
	require.Equal(t, []Action{Arm{2, settle}}, actions, "it will not say READY")
	l, _ = play(l, TimerFired{}, Answered{})
	require.Equal(t, Ready, l.Phase)

	l, actions = play(l, Troubled{})
	require.Equal(t, []Action{Reach{l.question}}, actions)
	l, _ = play(l, Answered{Err: errNo}, Troubled{})
	require.Equal(t, []any{Ready, Doubting, errNo.Error()}, []any{l.Phase, l.Activity, l.Reason})
	l, _ = play(l, TimerFired{}, Answered{})
	require.Equal(t, []any{Ready, Idle, ""}, []any{l.Phase, l.Activity, l.Reason})

	_, actions = play(l, FilesChanged{})
	require.Equal(t, []Action{SignalMain{SigHup}}, actions)
	l, actions = play(l, FilesChanged{Restart: true})
	require.Contains(t, actions, SignalMain{SigTerm})
	l, actions = play(l, MainExited{PID: 7})
	require.Equal(t, []any{Starting, Reaching}, []any{l.Phase, l.Activity})
	require.Equal(t, []Action{Reach{l.question}}, actions, "perhaps it is another database")
}

// TestNewKeysAreRead: a daemon that was about to hand over when its keys changed is
// told once more.
func TestNewKeysAreRead(t *testing.T) {
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	l := New(Plan{Restarts: true, Announces: true, Deadlines: NewDeadlines(0, 0)}, nodesize.Allocation{})
	l, _ = play(l, Begun{}, MainStarted{PID: 7, At: at(0)}, MainReady{}, TimerFired{}, Answered{})
	require.Equal(t, Ready, l.Phase)
	l, actions := play(l, FilesChanged{Since: at(5)})
	require.Equal(t, []Action{SignalMain{SigHup}}, actions)
	l, _ = play(l, MainChanged{PID: 8, At: at(4)})
	l, actions = play(l, Answered{})
	require.Equal(t, []Action{SignalMain{SigHup}}, actions, "8 was on its way before")
	l, _ = play(l, MainChanged{PID: 9, At: at(6)})
	l, actions = play(l, Answered{})
	require.Empty(t, actions)
	require.Equal(t, Ready, l.Phase)
	_, actions = play(l, FilesChanged{Since: at(5)})
	require.Empty(t, actions, "9 has read them")
}

var errNo = errors.New("no")
