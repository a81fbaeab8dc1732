package lifecycle

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/backoff"
	"github.com/slurmlet/slurmlet/internal/exitcode"
	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// terminating is a drain of our own on the way down; idle is no other state than at first.
func terminating(n *slurm.Node) { n.State, n.Reason = append(n.State, "DRAIN"), reasonTerminate }

// isReady is a slurmd that serves; isTerminated one that was told to end, and has asked for its record.
func isReady() State {
	l, _ := play(slurmdLife(), append(registered, Answered{Node: record()})...)
	return l
}

func isTerminated() State {
	l, _ := play(isReady(), Terminated{Signal: "SIGTERM"})
	return l
}

// certain: that there is no record must be sure.
var certain = Need{Absence: true}

func refusal() error { return errors.Join(slurm.ErrBusy) }

// kind is what an action does, whatever it does it to.
func kind(a Action) any {
	if c, is := a.(Change); is {
		return c.Verb
	}
	return reflect.TypeOf(a)
}

func TestWithdrawal(t *testing.T) {
	l, actions := play(isReady(), Terminated{Signal: "SIGTERM"})
	way := l.Deadlines
	require.Equal(t, []Action{
		Schedule{toRequeue, way.Requeue},
		Schedule{toKill, way.Kill},
		Schedule{toFail, way.Fail},
		Schedule{toLeave, way.Leave},
		Schedule{toStop, way.Stop},
		AskJobs{Number: l.question, Need: certain},
	}, actions)
	again, actions := play(l, Terminated{Signal: "SIGTERM"})
	require.Empty(t, actions, "a second signal shortens nothing")
	require.Equal(t, l, again)

	const step1 = 1
	for name, c := range map[string]struct {
		events []Event
		doing  Activity
		action Action // of this type is one that the last event leads to
	}{
		"idle":                       {[]Event{Answered{Node: record()}}, Deleting, Change{Verb: DeleteNode}},
		"idle, deleted":              {[]Event{Answered{Node: record()}, Done{}}, Deleting, Change{Verb: DeleteAgain}},
		"idle, and it stays deleted": {[]Event{Answered{Node: record()}, Done{}, Done{Err: slurm.ErrNoNode}}, Ending, SignalMain{}},
		"gone already":               {[]Event{Answered{}}, Ending, SignalMain{}},
		"no answer is none":          {[]Event{Answered{Err: errors.New("no")}}, Withdrawing, Arm{}},
		"a job was quicker":          {[]Event{Answered{Node: record()}, Done{Err: refusal()}}, Withdrawing, Arm{}},
		"a job was quicker, drained": {[]Event{Answered{Node: record()}, Done{Err: refusal()}, TimerFired{}, Answered{Node: record(busy)}}, Draining, Change{Verb: DrainNode}},
		"busy":                       {[]Event{Answered{Node: record(busy)}}, Draining, Change{Verb: DrainNode}},
		"busy, cannot be drained":    {[]Event{Answered{Node: record(busy)}, Done{Err: errors.New("no")}}, Withdrawing, Arm{}},
		"busy, drained":              {[]Event{Answered{Node: record(busy)}, Done{}}, Withdrawing, AskJobs{}},
		"an admin's drain is kept":   {[]Event{Answered{Node: record(busy, anAdmins), Steps: step1}}, Finishing, Arm{}},
		"an admin's drain, and idle": {[]Event{Answered{Node: record(anAdmins)}}, Deleting, Change{Verb: DeleteNode}},
		"a step runs":                {[]Event{Answered{Node: record(busy, terminating), Steps: step1}}, Finishing, Arm{}},
		"a minute later":             {[]Event{Answered{Node: record(busy, terminating), Steps: step1}, TimerFired{}}, Finishing, CountSteps{}},
		"a step has ended":           {[]Event{Answered{Node: record(busy, terminating), Steps: step1}, StepsEnded{}}, Finishing, Arm{}},
		"a step ends while the record is looked at": {[]Event{
			StepsEnded{}, Answered{Node: record(busy, terminating), Steps: step1},
		}, Finishing, Arm{}},
		"steps that end cut no question short": {[]Event{
			Answered{Node: record(busy, terminating), Steps: step1}, StepsEnded{}, TimerFired{}, StepsEnded{},
		}, Withdrawing, nil},
		"slurmd hands over when the record is deleted": {[]Event{
			Answered{Node: record()}, Done{}, Done{Err: slurm.ErrNoNode}, MainChanged{PID: 8, At: epoch},
		}, Withdrawing, Arm{}},
		"slurmd hands over while that is looked at": {[]Event{
			Answered{Node: record()}, Done{}, MainChanged{PID: 8, At: epoch}, Done{Err: slurm.ErrNoNode},
		}, Withdrawing, Arm{}},
		"slurmd has handed over and registered": {[]Event{
			Answered{Node: record()}, Done{}, Done{Err: slurm.ErrNoNode}, MainChanged{PID: 8, At: epoch}, TimerFired{}, Answered{Node: record()},
		}, Deleting, Change{Verb: DeleteNode}},
		"slurmd has handed over and not registered yet": {[]Event{
			Answered{Node: record()}, Done{}, Done{Err: slurm.ErrNoNode}, MainChanged{PID: 8, At: epoch}, TimerFired{}, Answered{},
		}, Withdrawing, Arm{}},
		"slurmd hands over when the time is over": {[]Event{DeadlinePassed{toStop}, MainChanged{PID: 8, At: epoch}}, Ending, SignalMain{}},
		"a job without a step here":               {[]Event{Answered{Node: record(busy, terminating)}}, Finishing, Arm{}},
		"the last job has ended":                  {[]Event{Answered{Node: record(busy, terminating), Steps: step1}, StepsEnded{}, TimerFired{}, Answered{Node: record(terminating)}}, Deleting, Change{Verb: DeleteNode}},
		"jobs are requeued":                       {[]Event{DeadlinePassed{toRequeue}, Answered{Node: record(busy, terminating), Steps: step1}}, Requeueing, Change{Verb: RequeueJobs}},
		"jobs are requeued once":                  {[]Event{DeadlinePassed{toRequeue}, Answered{Node: record(busy, terminating)}, Done{}, Answered{Node: record(busy, terminating)}}, Finishing, Arm{}},
		"jobs could not be requeued":              {[]Event{DeadlinePassed{toRequeue}, Answered{Node: record(busy, terminating)}, Done{Err: errors.New("no")}, TimerFired{}, Answered{Node: record(busy, terminating)}}, Requeueing, Change{Verb: RequeueJobs}},
		"not drained yet at the end":              {[]Event{DeadlinePassed{toRequeue}, Answered{Node: record(busy)}}, Draining, Change{Verb: DrainNode}},
		"processes are killed":                    {[]Event{DeadlinePassed{toRequeue}, DeadlinePassed{toKill}}, Withdrawing, KillRequeued{}},
		"jobs fail":                               {[]Event{DeadlinePassed{toFail}, Answered{Node: record(busy, terminating)}}, Failing, Change{Verb: FailNode}},
		"failed jobs have a moment":               {[]Event{DeadlinePassed{toFail}, Answered{Node: record(busy, terminating)}, Done{}, Answered{Node: record(down), Steps: step1}}, Finishing, nil},
		"failed jobs have had it":                 {[]Event{DeadlinePassed{toFail}, Answered{Node: record(busy, terminating)}, Done{}, Answered{Node: record(down), Steps: step1}, DeadlinePassed{toLeave}, Answered{Node: record(down), Steps: step1}}, Deleting, Change{Verb: DeleteNode}},
		"slurmd does not wait for failed steps": {[]Event{
			DeadlinePassed{toFail}, Answered{Node: record(busy, terminating)}, Done{}, Answered{Node: record(down)}, Done{}, Done{Err: slurm.ErrNoNode},
		}, Ending, KillSteps{}},
		"the time is over":                  {[]Event{DeadlinePassed{toStop}}, Ending, SignalMain{}},
		"slurmd dies":                       {[]Event{MainExited{PID: 7, Code: 1}}, Pausing, Arm{}},
		"slurmd dies, and is started again": {[]Event{MainExited{PID: 7, Code: 1}, TimerFired{}, Answered{}}, Launching, StartMain{}},
		"slurmd is back":                    {[]Event{MainExited{PID: 7, Code: 1}, TimerFired{}, Answered{}, MainStarted{PID: 8, At: epoch}, MainReady{}, TimerFired{}}, Withdrawing, AskJobs{}},
		"slurmd is back, and the record is of the one before": {[]Event{
			MainExited{PID: 7, Code: 1}, TimerFired{}, Answered{}, MainStarted{PID: 8, At: epoch.Add(time.Minute)}, MainReady{}, TimerFired{}, Answered{Node: record(terminating)},
		}, Withdrawing, Arm{}},
		"slurmd is back late": {[]Event{
			MainExited{PID: 7, Code: 1}, DeadlinePassed{toRequeue}, TimerFired{}, Answered{}, MainStarted{PID: 8, At: epoch}, MainReady{}, TimerFired{}, Answered{Node: record(busy, terminating)},
		}, Requeueing, Change{Verb: RequeueJobs}},
	} {
		t.Run(name, func(t *testing.T) {
			l, actions := play(isTerminated(), c.events...)
			require.Equal(t, Stopping, l.Phase)
			require.Equal(t, c.doing, l.Activity)
			if c.action == nil {
				require.Empty(t, actions)
				return
			}
			require.True(t, slices.ContainsFunc(actions, func(a Action) bool { return kind(a) == kind(c.action) }), "%+v", actions)
		})
	}
}

func TestWithdrawalEnds(t *testing.T) {
	for name, c := range map[string]struct {
		events []Event
		code   int
	}{
		"in order":                 {[]Event{Answered{Node: record()}, Done{}, Answered{}, MainExited{PID: 7}}, 0},
		"slurmd failed":            {[]Event{Answered{Node: record()}, Done{}, Answered{}, MainExited{PID: 7, Code: 3}}, 3},
		"slurmctld did not answer": {[]Event{Answered{Err: errors.New("no")}, DeadlinePassed{toStop}, MainExited{PID: 7}}, exitcode.Left},
		"jobs are left":            {[]Event{Answered{Node: record(busy, terminating)}, DeadlinePassed{toStop}, MainExited{PID: 7}}, exitcode.Left},
		"a reservation keeps the record": {[]Event{
			Answered{Node: record(terminating)},
			Done{Err: refusal()},
			TimerFired{},
			Answered{Node: record(terminating)},
			Done{Err: refusal()},
			TimerFired{},
			Answered{Node: record(terminating)},
			Done{Err: refusal()},
			TimerFired{},
			Answered{Node: record(terminating)},
			MainExited{PID: 7},
		}, exitcode.Left},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := play(isTerminated(), c.events...)
			require.Equal(t, Exited, l.Phase)
			require.Equal(t, c.code, l.Code)
		})
	}
}

// TestUnseen: a slurmd that has just said READY may register in a moment, and what is not there yet is not gone.
func TestUnseen(t *testing.T) {
	l, _ := play(slurmdLife(), append(registered, Terminated{Signal: "SIGTERM"})...)
	for range unseenTries {
		var actions []Action
		l, actions = play(l, Answered{})
		require.Equal(t, Withdrawing, l.Activity)
		require.IsType(t, Arm{}, actions[0])
		l, _ = play(l, TimerFired{})
	}
	gone, _ := play(l, Answered{})
	require.Equal(t, Ending, gone.Activity)
	seen, _ := play(l, Answered{Node: record()})
	require.Equal(t, Deleting, seen.Activity)
}

// TestMadeAnew: slurmd may have been registering while its record was deleted.
func TestMadeAnew(t *testing.T) {
	l, _ := play(isReady(), Terminated{Signal: "SIGTERM", Idle: true})
	l, actions := play(l, Done{})
	require.Equal(t, []Action{Change{Number: l.question, Verb: DeleteAgain}}, actions, "slurmctld says that there is none")
	for name, unanswered := range map[string]Event{"none": Done{Err: slurm.ErrNoNode}, "no answer": Done{Err: errors.New("no")}, "no time": DeadlinePassed{toStop}} {
		end, _ := play(l, unanswered)
		require.Equal(t, Ending, end.Activity, name)
		end, _ = play(end, MainExited{PID: 7})
		require.Equal(t, exitcode.OK, end.Code, "slurmctld has said that it is deleted")
	}
	again, actions := play(l, Done{})
	require.Equal(t, []Action{AskJobs{Number: again.question, Need: certain}}, actions, "there was one")
	again, actions = play(again, Answered{Node: record()})
	require.Equal(t, []Action{Change{Number: again.question, Verb: DeleteNode}}, actions)
	unsure, _ := play(again, Done{Err: errors.New("no")}, TimerFired{}, Answered{Err: errors.New("no")})
	require.Equal(t, Withdrawing, unsure.Activity)
	taken, _ := play(l, Done{Err: refusal()}, TimerFired{}, Answered{Node: record(busy)})
	require.Equal(t, Draining, taken.Activity, "a job has come")
}

// TestLonely: a node without steps does not wait for a slurmctld that is gone, one with steps does.
func TestLonely(t *testing.T) {
	for steps, state := range []Phase{Exited, Stopping} {
		l := isTerminated()
		for range 3 * lonelyTries {
			l, _ = play(l, Answered{Err: errors.New("no"), Steps: steps}, TimerFired{})
		}
		l, _ = play(l, MainExited{PID: 7})
		require.Equal(t, state, l.Phase)
	}
}

// TestLonelyWithoutAService: a question may take all the time that it has, as
// one to a name does that DNS does not know any more.
func TestLonelyWithoutAService(t *testing.T) {
	l, took := isTerminated(), time.Duration(0)
	for l.Activity == Withdrawing && took < time.Hour {
		var actions []Action
		l, actions = play(l, Answered{Err: errNo, Late: true})
		took += QuestionLimit
		if pause, armed := actions[0].(Arm); armed {
			took += pause.After
			l, _ = play(l, TimerFired{})
		}
	}
	require.Equal(t, Ending, l.Activity)
	require.InDelta(t, 75*time.Second, took, float64(15*time.Second))
}

// TestNoStepHere: nothing tells of the end of an allocation without a step, nor
// of that of an epilog, which is soon.
func TestNoStepHere(t *testing.T) {
	for state, pause := range map[string]time.Duration{"RUNNING": WatchedPause, "COMPLETING": backoff.LastTry} {
		l, actions := isTerminated(), []Action(nil)
		for range 3 * watchedTries {
			l, _ = play(l, TimerFired{})
			l, actions = play(l, Answered{Node: record(busy, terminating), Jobs: []slurm.Job{{ID: 5, State: []string{state}}}})
		}
		require.Equal(t, []Action{Arm{l.timer, pause}}, actions, state)
	}
}

func TestSignalAheadOfTheRequeue(t *testing.T) {
	l := isReady()
	l.Signals, l.Deadlines = true, NewDeadlines(30*time.Second, 10*time.Second)
	l, actions := play(l, Terminated{Signal: "SIGTERM"})
	require.Contains(t, actions, Schedule{toSignal, 4 * time.Second})
	l, actions = play(l, DeadlinePassed{toSignal})
	require.Equal(t, []Action{SignalJobs{}}, actions)
	require.Equal(t, Withdrawing, l.Activity, "what is waited for goes on")
}

// TestStepsThatStay: what fails is asked to end, and killed before slurmd is stopped, which would wait for it.
func TestStepsThatStay(t *testing.T) {
	l, actions := play(isTerminated(), DeadlinePassed{toFail}, Answered{Node: record(busy, terminating)}, Done{})
	require.Contains(t, actions, EndSteps{})
	_, actions = play(l, DeadlinePassed{toLeave})
	require.Contains(t, actions, EndSteps{Kill: true})

	l, actions = play(isTerminated(), DeadlinePassed{toRequeue}, Answered{Node: record(busy, terminating)}, Done{}, DeadlinePassed{toLeave})
	require.Contains(t, actions, EndSteps{}, "slurmctld has requeued what may be, and waits for the end of what runs here")
	require.NotContains(t, actions, HoldSteps{})
	_, actions = play(l, DeadlinePassed{toStop})
	require.Equal(t, EndSteps{Kill: true}, actions[0])
}

// TestStepsOfJobsThatCouldNotBeRequeued: with the word of their end, which is not their own, they would have FAILED.
func TestStepsOfJobsThatCouldNotBeRequeued(t *testing.T) {
	silent, actions := play(isTerminated(), DeadlinePassed{toRequeue}, Answered{Err: errors.New("no")}, DeadlinePassed{toFail}, Answered{Err: errors.New("no")}, DeadlinePassed{toLeave})
	require.Equal(t, []Action{HoldSteps{}, EndSteps{}}, actions[len(actions)-2:], "users' programs may catch SIGTERM")
	_, actions = play(silent, DeadlinePassed{toStop})
	require.Equal(t, KillSteps{}, actions[0])
	require.NotContains(t, actions, EndSteps{Kill: true})
}

// TestImpatience: SIGINT twice ends the daemon at once, whatever runs.
func TestImpatience(t *testing.T) {
	l, _ := play(isTerminated(), Answered{Node: record(busy, terminating), Steps: 1})
	l, actions := play(l, Terminated{Signal: "SIGINT", Again: true})
	require.Equal(t, Ending, l.Activity)
	require.Contains(t, actions, SignalMain{SigTerm})
	_, actions = play(l, Terminated{Signal: "SIGINT", Again: true})
	require.Empty(t, actions)
}

// TestALostEndOfAStep: the steps that are waited for are counted once a minute,
// and slurmctld is asked when there are fewer.
func TestALostEndOfAStep(t *testing.T) {
	l, actions := play(isTerminated(), Answered{Node: record(busy, terminating), Steps: 2})
	require.Equal(t, []Action{Arm{l.timer, CountEvery}}, actions)
	for range 3 {
		l, actions = play(l, TimerFired{})
		require.Equal(t, []Action{CountSteps{l.question}}, actions)
		l, actions = play(l, StepsCounted{l.question, 2})
		require.Equal(t, []Action{Arm{l.timer, CountEvery}}, actions, "nothing is asked")
	}
	l, _ = play(l, TimerFired{})
	stale, actions := play(l, StepsEnded{}, StepsCounted{l.question, 1})
	require.Empty(t, actions, "an end was told meanwhile: %+v", stale)
	l, actions = play(l, StepsCounted{l.question, 1})
	require.Equal(t, []Action{Arm{l.timer, 2 * settle}}, actions)
	l, actions = play(l, TimerFired{})
	require.Equal(t, []Action{AskJobs{Number: l.question, Need: certain}}, actions)
}

// TestIdle: of a node without a step slurmctld is asked to delete the record at
// once, which it refuses when a job has come.
func TestIdle(t *testing.T) {
	idle := Terminated{Signal: "SIGTERM", Idle: true}
	l, actions := play(isReady(), idle)
	require.Contains(t, actions, Change{Number: l.question, Verb: DeleteNode})
	gone, actions := play(l, Done{}, Done{Err: slurm.ErrNoNode})
	require.Equal(t, Ending, gone.Activity)
	require.Contains(t, actions, SignalMain{SigTerm})
	l, _ = play(l, Done{Err: refusal()}, TimerFired{}, Answered{Node: record(busy)})
	require.Equal(t, Draining, l.Activity)
	resizing, _ := play(isReady(), Measured{Allocation: nodesize.Allocation{Size: nodesize.Size{CPUs: 2}}})
	for name, other := range map[string]State{"not seen by slurmctld": func() State { l := isReady(); l.seen = false; return l }(), "resizing": resizing} {
		l, actions = play(other, idle)
		require.Contains(t, actions, AskJobs{Number: l.question, Need: Need{Absence: other.seen}}, name)
	}
}

// TestLeaveWhileTheNodeIsSetDown: slurmctld hears once that the node is DOWN.
func TestLeaveWhileTheNodeIsSetDown(t *testing.T) {
	failing := isTerminated()
	failing.Activity, failing.stage = Failing, toFail
	l, actions := play(failing, DeadlinePassed{Stage: toLeave})
	require.Equal(t, failing.question, l.question, "the answer still counts")
	require.NotContains(t, actions, AskNode{Number: l.question})
	l, actions = play(l, Done{Number: failing.question})
	require.Equal(t, toFail, l.acted)
	require.NotEmpty(t, actions, "the record is looked at then")
}
