package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// terminating is a drain of our own on the way down; idle is no other state than at first.
func terminating(n *slurm.Node) { n.State, n.Reason = append(n.State, "DRAIN"), reasonTerminate }

// isReady is a slurmd that serves; isTerminated one that was told to end, and has asked for its record.
func isReady() life {
	l, _ := play(slurmdLife(), append(registered, answered{node: record()})...)
	return l
}

func isTerminated() life {
	l, _ := play(isReady(), terminated{signal: "SIGTERM"})
	return l
}

func refusal() error { return errors.Join(slurm.ErrBusy) }

func TestWithdrawal(t *testing.T) {
	l, actions := play(isReady(), terminated{signal: "SIGTERM"})
	way := l.way
	require.Equal(t, []action{
		schedule{toRequeue, way.Requeue},
		schedule{toKill, way.Kill},
		schedule{toFail, way.Fail},
		schedule{toLeave, way.Leave},
		schedule{toStop, way.Stop},
		ask{l.question},
	}, actions)
	again, actions := play(l, terminated{signal: "SIGTERM"})
	require.Empty(t, actions, "a second signal shortens nothing")
	require.Equal(t, l, again)

	const step1 = 1
	for name, c := range map[string]struct {
		events []event
		doing  doing
		action action // of this type is one that the last event leads to
	}{
		"idle":                       {[]event{answered{node: record()}}, deleting, deleteRecord{}},
		"idle, deleted":              {[]event{answered{node: record()}, carriedOut{}}, withdrawing, ask{}},
		"idle, and it stays deleted": {[]event{answered{node: record()}, carriedOut{}, answered{}}, ending, signalMain{}},
		"gone already":               {[]event{answered{}}, ending, signalMain{}},
		"no answer is none":          {[]event{answered{err: errors.New("no")}}, withdrawing, arm{}},
		"a job was quicker":          {[]event{answered{node: record()}, carriedOut{err: refusal()}}, withdrawing, arm{}},
		"a job was quicker, drained": {[]event{answered{node: record()}, carriedOut{err: refusal()}, timerFired{}, answered{node: record(busy)}}, draining, drainRecord{}},
		"busy":                       {[]event{answered{node: record(busy)}}, draining, drainRecord{}},
		"busy, cannot be drained":    {[]event{answered{node: record(busy)}, carriedOut{err: errors.New("no")}}, withdrawing, arm{}},
		"busy, drained":              {[]event{answered{node: record(busy)}, carriedOut{}}, withdrawing, ask{}},
		"an admin's drain is kept":   {[]event{answered{node: record(busy, anAdmins), steps: step1}}, finishing, arm{}},
		"an admin's drain, and idle": {[]event{answered{node: record(anAdmins)}}, deleting, deleteRecord{}},
		"a step runs":                {[]event{answered{node: record(busy, terminating), steps: step1}}, finishing, arm{}},
		"a minute later":             {[]event{answered{node: record(busy, terminating), steps: step1}, timerFired{}}, finishing, countSteps{}},
		"a step has ended":           {[]event{answered{node: record(busy, terminating), steps: step1}, stepsEnded{}}, finishing, arm{}},
		"a step ends while the record is looked at": {[]event{
			stepsEnded{}, answered{node: record(busy, terminating), steps: step1},
		}, finishing, arm{}},
		"steps that end cut no question short": {[]event{
			answered{node: record(busy, terminating), steps: step1}, stepsEnded{}, timerFired{}, stepsEnded{},
		}, withdrawing, nil},
		"slurmd hands over when the record is deleted": {[]event{
			answered{node: record()}, carriedOut{}, answered{}, mainChanged{pid: 8, at: epoch},
		}, withdrawing, arm{}},
		"slurmd hands over while that is looked at": {[]event{
			answered{node: record()}, carriedOut{}, mainChanged{pid: 8, at: epoch}, answered{},
		}, withdrawing, arm{}},
		"slurmd has handed over and registered": {[]event{
			answered{node: record()}, carriedOut{}, answered{}, mainChanged{pid: 8, at: epoch}, timerFired{}, answered{node: record()},
		}, deleting, deleteRecord{}},
		"slurmd has handed over and not registered yet": {[]event{
			answered{node: record()}, carriedOut{}, answered{}, mainChanged{pid: 8, at: epoch}, timerFired{}, answered{},
		}, withdrawing, arm{}},
		"slurmd hands over when the time is over": {[]event{deadline{toStop}, mainChanged{pid: 8, at: epoch}}, ending, signalMain{}},
		"a job without a step here":               {[]event{answered{node: record(busy, terminating)}}, finishing, arm{}},
		"the last job has ended":                  {[]event{answered{node: record(busy, terminating), steps: step1}, stepsEnded{}, timerFired{}, answered{node: record(terminating)}}, deleting, deleteRecord{}},
		"jobs are requeued":                       {[]event{deadline{toRequeue}, answered{node: record(busy, terminating), steps: step1}}, requeueing, requeueJobs{}},
		"jobs are requeued once":                  {[]event{deadline{toRequeue}, answered{node: record(busy, terminating)}, carriedOut{}, answered{node: record(busy, terminating)}}, finishing, arm{}},
		"jobs could not be requeued":              {[]event{deadline{toRequeue}, answered{node: record(busy, terminating)}, carriedOut{err: errors.New("no")}, timerFired{}, answered{node: record(busy, terminating)}}, requeueing, requeueJobs{}},
		"not drained yet at the end":              {[]event{deadline{toRequeue}, answered{node: record(busy)}}, draining, drainRecord{}},
		"processes are killed":                    {[]event{deadline{toRequeue}, deadline{toKill}}, withdrawing, killRequeued{}},
		"jobs fail":                               {[]event{deadline{toFail}, answered{node: record(busy, terminating)}}, failing, failRecord{}},
		"failed jobs have a moment":               {[]event{deadline{toFail}, answered{node: record(busy, terminating)}, carriedOut{}, answered{node: record(down), steps: step1}}, finishing, nil},
		"failed jobs have had it":                 {[]event{deadline{toFail}, answered{node: record(busy, terminating)}, carriedOut{}, answered{node: record(down), steps: step1}, deadline{toLeave}, answered{node: record(down), steps: step1}}, deleting, deleteRecord{}},
		"slurmd does not wait for failed steps": {[]event{
			deadline{toFail}, answered{node: record(busy, terminating)}, carriedOut{}, answered{node: record(down)}, carriedOut{}, answered{},
		}, ending, killSteps{}},
		"the time is over":                  {[]event{deadline{toStop}}, ending, signalMain{}},
		"slurmd dies":                       {[]event{mainExited{pid: 7, code: 1}}, pausing, arm{}},
		"slurmd dies, and is started again": {[]event{mainExited{pid: 7, code: 1}, timerFired{}, answered{}}, launching, startMain{}},
		"slurmd is back":                    {[]event{mainExited{pid: 7, code: 1}, timerFired{}, answered{}, mainStarted{pid: 8, at: epoch}, mainReady{}, timerFired{}}, withdrawing, ask{}},
		"slurmd is back, and the record is of the one before": {[]event{
			mainExited{pid: 7, code: 1}, timerFired{}, answered{}, mainStarted{pid: 8, at: epoch.Add(time.Minute)}, mainReady{}, timerFired{}, answered{node: record(terminating)},
		}, withdrawing, arm{}},
		"slurmd is back late": {[]event{
			mainExited{pid: 7, code: 1}, deadline{toRequeue}, timerFired{}, answered{}, mainStarted{pid: 8, at: epoch}, mainReady{}, timerFired{}, answered{node: record(busy, terminating)},
		}, requeueing, requeueJobs{}},
	} {
		t.Run(name, func(t *testing.T) {
			l, actions := play(isTerminated(), c.events...)
			require.Equal(t, Stopping, l.state)
			require.Equal(t, c.doing, l.doing)
			if c.action == nil {
				require.Empty(t, actions)
				return
			}
			require.True(t, slices.ContainsFunc(actions, func(a action) bool { return reflect.TypeOf(a) == reflect.TypeOf(c.action) }), "%+v", actions)
		})
	}
}

func TestWithdrawalEnds(t *testing.T) {
	for name, c := range map[string]struct {
		events []event
		code   int
	}{
		"in order":                 {[]event{answered{node: record()}, carriedOut{}, answered{}, mainExited{pid: 7}}, 0},
		"slurmd failed":            {[]event{answered{node: record()}, carriedOut{}, answered{}, mainExited{pid: 7, code: 3}}, 3},
		"slurmctld did not answer": {[]event{answered{err: errors.New("no")}, deadline{toStop}, mainExited{pid: 7}}, ExitLeft},
		"jobs are left":            {[]event{answered{node: record(busy, terminating)}, deadline{toStop}, mainExited{pid: 7}}, ExitLeft},
		"a reservation keeps the record": {[]event{
			answered{node: record(terminating)},
			carriedOut{err: refusal()},
			timerFired{},
			answered{node: record(terminating)},
			carriedOut{err: refusal()},
			timerFired{},
			answered{node: record(terminating)},
			carriedOut{err: refusal()},
			timerFired{},
			answered{node: record(terminating)},
			mainExited{pid: 7},
		}, ExitLeft},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := play(isTerminated(), c.events...)
			require.Equal(t, Exited, l.state)
			require.Equal(t, c.code, l.code)
		})
	}
}

// TestUnseen: a slurmd that has just said READY may register in a moment, and what is not there yet is not gone.
func TestUnseen(t *testing.T) {
	l, _ := play(slurmdLife(), append(registered, terminated{signal: "SIGTERM"})...)
	for range unseenTries {
		var actions []action
		l, actions = play(l, answered{})
		require.Equal(t, withdrawing, l.doing)
		require.IsType(t, arm{}, actions[0])
		l, _ = play(l, timerFired{})
	}
	gone, _ := play(l, answered{})
	require.Equal(t, ending, gone.doing)
	seen, _ := play(l, answered{node: record()})
	require.Equal(t, deleting, seen.doing)
}

// TestMadeAnew: slurmd may have been registering while its record was deleted.
func TestMadeAnew(t *testing.T) {
	l, _ := play(isReady(), terminated{signal: "SIGTERM", idle: true})
	l, actions := play(l, carriedOut{})
	require.Equal(t, []action{ask{l.question}}, actions)
	for name, unanswered := range map[string]event{"no answer": answered{err: errors.New("no")}, "no time": deadline{toStop}} {
		end, _ := play(l, unanswered)
		require.Equal(t, ending, end.doing, name)
		end, _ = play(end, mainExited{pid: 7})
		require.Equal(t, ExitOK, end.code, "slurmctld has said that it is deleted")
	}
	again, actions := play(l, answered{node: record()})
	require.Equal(t, []action{deleteRecord{again.question}}, actions)
	unsure, _ := play(again, carriedOut{err: errors.New("no")}, timerFired{}, answered{err: errors.New("no")})
	require.Equal(t, withdrawing, unsure.doing)
	taken, _ := play(l, answered{node: record(busy)})
	require.Equal(t, draining, taken.doing, "a job has come")
}

// TestLonely: a node without steps does not wait for a slurmctld that is gone, one with steps does.
func TestLonely(t *testing.T) {
	for steps, state := range []State{Exited, Stopping} {
		l := isTerminated()
		for range 3 * lonelyTries {
			l, _ = play(l, answered{err: errors.New("no"), steps: steps}, timerFired{})
		}
		l, _ = play(l, mainExited{pid: 7})
		require.Equal(t, state, l.state)
	}
}

// TestLonelyWithoutAService: a question may take all the time that it has, as
// one to a name does that DNS does not know any more.
func TestLonelyWithoutAService(t *testing.T) {
	l, took := isTerminated(), time.Duration(0)
	for l.doing == withdrawing && took < time.Hour {
		var actions []action
		l, actions = play(l, answered{err: fmt.Errorf("late: %w", context.DeadlineExceeded)})
		took += questionLimit
		if pause, armed := actions[0].(arm); armed {
			took += pause.after
			l, _ = play(l, timerFired{})
		}
	}
	require.Equal(t, ending, l.doing)
	require.InDelta(t, 75*time.Second, took, float64(15*time.Second))
}

// TestNoStepHere: nothing tells of the end of an allocation without a step, nor
// of that of an epilog, which is soon.
func TestNoStepHere(t *testing.T) {
	for state, pause := range map[string]time.Duration{"RUNNING": watchedPause, "COMPLETING": lastTry} {
		l, actions := isTerminated(), []action(nil)
		for range 3 * watchedTries {
			l, _ = play(l, timerFired{})
			l, actions = play(l, answered{node: record(busy, terminating), jobs: []slurm.Job{{ID: 5, State: []string{state}}}})
		}
		require.Equal(t, []action{arm{l.timer, pause}}, actions, state)
	}
}

func TestSignalAheadOfTheRequeue(t *testing.T) {
	l := isReady()
	l.signals, l.way = true, newWayDown(30*time.Second, 10*time.Second)
	l, actions := play(l, terminated{signal: "SIGTERM"})
	require.Contains(t, actions, schedule{toSignal, 4 * time.Second})
	l, actions = play(l, deadline{toSignal})
	require.Equal(t, []action{signalJobs{}}, actions)
	require.Equal(t, withdrawing, l.doing, "what is waited for goes on")
}

// TestStepsThatStay: what fails is asked to end, and killed before slurmd is stopped, which would wait for it.
func TestStepsThatStay(t *testing.T) {
	l, actions := play(isTerminated(), deadline{toFail}, answered{node: record(busy, terminating)}, carriedOut{})
	require.Contains(t, actions, endSteps{})
	_, actions = play(l, deadline{toLeave})
	require.Contains(t, actions, endSteps{kill: true})

	l, actions = play(isTerminated(), deadline{toRequeue}, answered{node: record(busy, terminating)}, carriedOut{}, deadline{toLeave})
	require.Contains(t, actions, endSteps{}, "slurmctld has requeued what may be, and waits for the end of what runs here")
	require.NotContains(t, actions, holdSteps{})
	_, actions = play(l, deadline{toStop})
	require.Equal(t, endSteps{kill: true}, actions[0])
}

// TestStepsOfJobsThatCouldNotBeRequeued: with the word of their end, which is not their own, they would have FAILED.
func TestStepsOfJobsThatCouldNotBeRequeued(t *testing.T) {
	silent, actions := play(isTerminated(), deadline{toRequeue}, answered{err: errors.New("no")}, deadline{toFail}, answered{err: errors.New("no")}, deadline{toLeave})
	require.Equal(t, []action{holdSteps{}, endSteps{}}, actions[len(actions)-2:], "users' programs may catch SIGTERM")
	_, actions = play(silent, deadline{toStop})
	require.Equal(t, killSteps{}, actions[0])
	require.NotContains(t, actions, endSteps{kill: true})
}

// TestImpatience: SIGINT twice ends the daemon at once, whatever runs.
func TestImpatience(t *testing.T) {
	l, _ := play(isTerminated(), answered{node: record(busy, terminating), steps: 1})
	l, actions := play(l, terminated{signal: "SIGINT", again: true})
	require.Equal(t, ending, l.doing)
	require.Contains(t, actions, signalMain{sigTerm})
	_, actions = play(l, terminated{signal: "SIGINT", again: true})
	require.Empty(t, actions)
}

// TestALostEndOfAStep: the steps that are waited for are counted once a minute,
// and slurmctld is asked when there are fewer.
func TestALostEndOfAStep(t *testing.T) {
	l, actions := play(isTerminated(), answered{node: record(busy, terminating), steps: 2})
	require.Equal(t, []action{arm{l.timer, countEvery}}, actions)
	for range 3 {
		l, actions = play(l, timerFired{})
		require.Equal(t, []action{countSteps{l.question}}, actions)
		l, actions = play(l, stepsCounted{l.question, 2})
		require.Equal(t, []action{arm{l.timer, countEvery}}, actions, "nothing is asked")
	}
	l, _ = play(l, timerFired{})
	stale, actions := play(l, stepsEnded{}, stepsCounted{l.question, 1})
	require.Empty(t, actions, "an end was told meanwhile: %+v", stale)
	l, actions = play(l, stepsCounted{l.question, 1})
	require.Equal(t, []action{arm{l.timer, 2 * settle}}, actions)
	l, actions = play(l, timerFired{})
	require.Equal(t, []action{ask{l.question}}, actions)
}

// TestIdle: of a node without a step slurmctld is asked to delete the record at
// once, which it refuses when a job has come.
func TestIdle(t *testing.T) {
	idle := terminated{signal: "SIGTERM", idle: true}
	l, actions := play(isReady(), idle)
	require.Contains(t, actions, deleteRecord{l.question})
	gone, actions := play(l, carriedOut{}, answered{})
	require.Equal(t, ending, gone.doing)
	require.Contains(t, actions, signalMain{sigTerm})
	l, _ = play(l, carriedOut{err: refusal()}, timerFired{}, answered{node: record(busy)})
	require.Equal(t, draining, l.doing)
	resizing, _ := play(isReady(), measured{Allocation: nodesize.Allocation{Size: nodesize.Size{CPUs: 2}}})
	for name, other := range map[string]life{"not seen by slurmctld": func() life { l := isReady(); l.seen = false; return l }(), "resizing": resizing} {
		l, actions = play(other, idle)
		require.Contains(t, actions, ask{l.question}, name)
	}
}
