package lifecycle

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/backoff"
	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/exitcode"
	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

var (
	first   = &confset.Set{Hash: "first"}
	second  = &confset.Set{Hash: "second"}
	third   = &confset.Set{Hash: "third"}
	rekeyed = &confset.Set{Hash: "first", KeyHash: "young"}
)

// running is a slurmctld, process 1, that is Ready with the first set.
func running() State {
	l := New(Plan{Announces: true, Reloads: true, Deadlines: NewDeadlines(30*time.Second, 0)}, nodesize.Allocation{})
	l.Phase, l.Main, l.WasReady, l.Live, l.Good = Ready, 1, true, first, first
	return l
}

// the events of a reload, in the words of the tables below.
func edits(s *confset.Set) func(State) Event { return func(State) Event { return Revision{Set: s} } }

func looks(err error) func(State) Event {
	return func(l State) Event { return Checked{l.put, "staged", nil, false, err} }
}

// jobsAppear while launches are waited for.
func jobsAppear(l State) Event { return LaunchesOver{l.put, errJobs} }

var errJobs = InUse{"jobs are in it"}

func settles(l State) Event { return LaunchesOver{Number: l.put} }

func replies(err error) func(State) Event {
	return func(l State) Event { return ReconfigureEnded{l.put, err} }
}

func handsOver(l State) Event { return MainChanged{PID: l.Main + 1, At: epoch} }

func pings(l State) Event { return Answered{Number: l.question} }

func nodesSay(took int, missed ...string) func(State) Event {
	return func(l State) Event { return NodesAsked{Number: l.put, Took: took, Missed: missed} }
}

// nodesSaySilent: slurmctld has not heard of the others since.
func nodesSaySilent(took int, silent ...string) func(State) Event {
	return func(l State) Event { return NodesAsked{Number: l.put, Took: took, Unheard: silent} }
}

// restarted: the one whose slurmd was restarted has come up with the set.
func restarted(took int, missed ...string) func(State) Event {
	return func(l State) Event { return NodesAsked{Number: l.put, Took: took, Missed: missed, Canary: true} }
}

func timesOut(l State) Event { return ReloadTimerFired{l.clock} }

func terminates(State) Event { return Terminated{Signal: "SIGTERM"} }

func TestStepReload(t *testing.T) {
	type events = []func(State) Event
	takes := events{looks(nil), settles, replies(nil), handsOver, pings}
	unanswered := replies(slurm.ErrUnreachable)
	silence := events{unanswered, timesOut, unanswered, timesOut, unanswered, timesOut}
	half := append(append(events{edits(second)}, takes...), nodesSay(1, "a"), timesOut)
	none := append(append(events{edits(second)}, takes...), slices.Repeat(events{nodesSay(0, "a", "b", "c")}, surelyMissed+1)...)
	some := slices.Repeat(events{nodesSay(2, "a")}, surelyMissed+1)
	half, none = slices.Clip(half), slices.Clip(none)
	for _, c := range []struct {
		name       string
		events     events
		doing      ConfActivity
		live, good *confset.Set
		refused    string
		last       Action // of the last event, nil for none
	}{
		{"the same again", events{edits(first)}, ConfIdle, first, first, "", nil},
		{"an edit is checked", events{edits(second)}, Checking, first, first, "", Check{1, second}},
		{"then launches are waited for", events{edits(second), looks(nil)}, AwaitingLaunches, first, first, "", AwaitLaunches{2, SendLimit}},
		{"longer for other keys", events{edits(rekeyed), looks(nil)}, AwaitingLaunches, first, first, "", AwaitLaunches{2, keySendLimit}},
		{"and it is put in place", events{edits(second), looks(nil), settles}, Reconfiguring, second, first, "", Reconfigure{3, second, "staged"}},
		{"a check that fails changes nothing", events{edits(second), looks(errNo)}, ConfIdle, first, first, "no", nil},
		{"the answer alone is not enough", events{edits(second), looks(nil), settles, replies(nil)}, Reconfiguring, second, first, "", nil},
		{"nor is the hand-over", events{edits(second), looks(nil), settles, handsOver, pings}, Reconfiguring, second, first, "", nil},
		{"both are", append(events{edits(second)}, takes...), Spreading, second, first, "", AskNodes{4, FirstLook, nil}},
		{"no answer, but a hand-over", events{edits(second), looks(nil), settles, replies(slurm.ErrUnreachable), handsOver, pings}, Spreading, second, first, "", AskNodes{4, FirstLook, nil}},
		{"the nodes have it", append(append(events{edits(second)}, takes...), nodesSay(3)), ConfIdle, second, second, "", Keep{second}},
		{"some nodes have not yet", append(append(events{edits(second)}, takes...), nodesSay(2, "a")), Spreading, second, first, "", AskNodes{5, 2 * FirstLook, nil}},
		{"and do not get it", append(append(events{edits(second)}, takes...), nodesSay(2, "a"), timesOut), ConfIdle, second, second, "", Keep{second}},
		{"half of them have: they get more time", half, Spreading, second, first, "", ArmReload{3, spreadLimit}},
		{"and no more have then: one slurmd is restarted into it", append(half, nodesSay(1, "a"), timesOut), RestartingOne, second, first, "", AskNodes{7, FirstLook, []string{"a"}}},
		{"slurmctld does not tell what became of it: nothing is refused", append(half, nodesSay(1, "a"), timesOut, timesOut), RestartingOne, second, first, "", ArmReload{5, spreadLimit}},
		{
			"it does not come up", append(half, nodesSay(1, "a"), timesOut, nodesSay(1, "a"), timesOut),
			Restoring, first, first, "1 of 2 nodes do not take it; the log of a says why",
			Reconfigure{9, first, ""},
		},
		{"none has, for long: one slurmd is restarted into it", none, RestartingOne, second, first, "", AskNodes{12, FirstLook, []string{"a"}}},
		{"it comes up: all are", append(none, restarted(1, "b", "c")), Spreading, second, first, "", AskNodes{13, FirstLook, []string{"b", "c"}}},
		{"and come up", append(none, restarted(1, "b", "c"), nodesSay(3)), ConfIdle, second, second, "", Keep{second}},
		{"and most do not", append(none, restarted(1, "b", "c"), nodesSay(1, "b", "c"), timesOut, nodesSay(1, "b", "c"), timesOut), Restoring, first, first, "2 of 3 nodes do not take it; the log of b says why", Reconfigure{16, first, ""}},
		{"a few go on with their slurmd: they are restarted", append(append(events{edits(second)}, takes...), some...), Spreading, second, first, "", AskNodes{12, backoff.LastTry, []string{"a"}}},
		{"slurmctld has not heard of the others: those that took it count", append(append(events{edits(second)}, takes...), nodesSaySilent(1, "a", "b"), timesOut, nodesSaySilent(1, "a", "b"), timesOut), ConfIdle, second, second, "", Keep{second}},
		{"slurmctld has heard of none: neither yes nor no", append(append(events{edits(second)}, takes...), nodesSaySilent(0, "a", "b"), timesOut, nodesSaySilent(0, "a", "b"), timesOut), Spreading, second, first, "", ArmReload{4, spreadLimit}},
		{"but the next edit has its turn", append(append(events{edits(second)}, takes...), nodesSaySilent(0, "a", "b"), edits(third), timesOut), Checking, second, first, "", Check{6, third}},
		{"if that is refused, the last good one is put back", append(append(events{edits(second)}, takes...), nodesSaySilent(0, "a", "b"), edits(third), timesOut, looks(errNo)), Restoring, first, first, "no", Reconfigure{7, first, ""}},
		{"the same again is no other", append(append(events{edits(second)}, takes...), nodesSaySilent(0, "a", "b"), edits(second), timesOut), Spreading, second, first, "", ArmReload{3, spreadLimit}},
		{"slurmctld never tells: it is ended", append(append(events{edits(second)}, takes...), slices.Repeat(events{timesOut}, 12)...), Restoring, second, first, "", SignalMain{SigTerm}},
		{"slurmctld does not tell: nothing is refused", append(append(events{edits(second)}, takes...), timesOut), Spreading, second, first, "", ArmReload{3, spreadLimit}},
		{"half of the nodes have not registered yet", append(append(events{edits(second)}, takes...), nodesSaySilent(1, "a"), timesOut), Spreading, second, first, "", ArmReload{3, spreadLimit}},
		{"slurmctld refuses: the last good one, and a reconfigure", events{edits(second), looks(nil), settles, replies(errNo)}, Restoring, first, first, "no", Reconfigure{4, first, ""}},
		{"slurmctld is silent, which is no refusal", events{edits(second), looks(nil), settles, timesOut}, Reconfiguring, second, first, "", Reconfigure{4, second, ""}},
		{"it is back", events{edits(second), looks(nil), settles, replies(errNo), replies(nil), handsOver, pings}, ConfIdle, first, first, "no", nil},
		{"it cannot be put back, and is tried again", events{edits(second), looks(nil), settles, replies(errNo), replies(errNo), timesOut}, Restoring, first, first, "no", Reconfigure{5, first, ""}},
		{"slurmctld does not answer at all: it is ended", append(events{edits(second), looks(nil), settles}, silence...), Restoring, second, first, "", SignalMain{SigTerm}},
		{"an answer in between: it is not", append(append(events{edits(second), looks(nil), settles}, silence[:4]...), replies(errNo)), Restoring, first, first, "no", Reconfigure{6, first, ""}},
		{"what was refused is not tried again", events{edits(second), looks(errNo), edits(second)}, ConfIdle, first, first, "no", nil},
		{"back to what is live", events{edits(second), looks(errNo), edits(first)}, ConfIdle, first, first, "", nil},
		{"an edit during the check: only the last", events{edits(second), edits(third), looks(nil)}, Checking, first, first, "", Check{2, third}},
		{"an edit during the wait for launches: only the last", events{edits(second), looks(nil), edits(third), settles}, Checking, first, first, "", Check{3, third}},
		{"an edit during the reconfigure waits", events{edits(second), looks(nil), settles, edits(third)}, Reconfiguring, second, first, "", nil},
		{"until it is its turn", append(append(events{edits(second)}, takes...), edits(third), nodesSay(3)), Checking, second, second, "", Check{6, third}},
		{"a few silent nodes do not keep it", append(append(events{edits(second)}, takes...), nodesSay(3, "a"), edits(third)), Checking, second, second, "", Check{7, third}},
		{"an edit while the last good one cannot be put back", events{edits(second), looks(nil), settles, replies(errNo), replies(errNo), edits(third)}, Checking, first, first, "no", Check{5, third}},
		{"jobs keep it: it waits", events{edits(second), looks(errJobs)}, ConfIdle, first, first, "jobs are in it", ArmReload{1, InUsePause}},
		{"and is looked at again", events{edits(second), looks(errJobs), timesOut}, Checking, first, first, "jobs are in it", Check{2, second}},
		{"and again", events{edits(second), looks(errJobs), timesOut, looks(errJobs)}, ConfIdle, first, first, "jobs are in it", ArmReload{2, InUsePause}},
		{"until they are over", events{edits(second), looks(errJobs), timesOut, looks(nil), settles}, Reconfiguring, second, first, "jobs are in it", Reconfigure{4, second, "staged"}},
		{"read once more, it waits on", events{edits(second), looks(errJobs), edits(second)}, ConfIdle, first, first, "jobs are in it", ArmReload{2, InUsePause}},
		{"back to what is live, nothing waits", events{edits(second), looks(errJobs), edits(first), timesOut}, ConfIdle, first, first, "", nil},
		{"another edit takes its place", events{edits(second), looks(errJobs), edits(third), looks(errNo), timesOut}, ConfIdle, first, first, "no", nil},
		{"other faults are found first", events{edits(second), looks(errJobs), timesOut, looks(errNo), timesOut}, ConfIdle, first, first, "no", nil},
		{"jobs come while launches are waited for", events{edits(second), looks(nil), jobsAppear}, ConfIdle, first, first, "jobs are in it", ArmReload{1, InUsePause}},
		{"an edit and jobs come then", events{edits(second), looks(nil), edits(third), jobsAppear}, Checking, first, first, "", Check{3, third}},
		{"slurmctld is reconfigured by somebody else meanwhile", events{edits(second), looks(errJobs), handsOver, timesOut, pings}, Checking, first, first, "jobs are in it", Check{2, second}},
		{"the last good one goes back first", events{edits(second), looks(nil), settles, replies(errNo), edits(third), replies(nil), handsOver, pings, looks(errJobs)}, ConfIdle, first, first, "jobs are in it", ArmReload{4, InUsePause}},
		{"after SIGTERM no jobs are waited for", events{edits(second), looks(errJobs), terminates, timesOut}, ConfIdle, first, first, "jobs are in it", nil},
		{"after SIGTERM nothing is waited for", events{edits(second), looks(nil), terminates, settles}, AwaitingLaunches, first, first, "", nil},
		{"after SIGTERM nothing", events{edits(second), terminates, looks(nil)}, Checking, first, first, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, actions := running(), []Action(nil)
			for _, e := range c.events {
				l, actions = Step(l, e(l))
			}
			require.Equal(t, c.doing, l.ConfActivity)
			require.Equal(t, c.live, l.Live)
			require.Equal(t, c.good, l.Good)
			require.Equal(t, c.refused, l.Why)
			if c.last == nil {
				require.Empty(t, actions)
			} else {
				require.Contains(t, actions, c.last)
			}
		})
	}
}

// TestStepHung: a slurmctld that hangs ends its container, whatever SIGTERM does to it.
func TestStepHung(t *testing.T) {
	hung := running()
	hung, _ = Step(hung, Revision{Set: second})
	hung, _ = Step(hung, Checked{hung.put, "staged", nil, false, nil})
	hung, _ = Step(hung, LaunchesOver{Number: hung.put})
	for range hangs {
		hung, _ = Step(hung, ReloadTimerFired{hung.clock})
	}
	require.Equal(t, Replacing, hung.Activity)
	const why = "slurmctld hangs: 3 reconfigures in a row had no answer within 2m0s"
	require.Equal(t, why, hung.Reason)
	deaf, actions := Step(hung, TimerFired{hung.timer})
	require.Equal(t, []Action{SignalMain{SigKill}}, actions)
	for name, end := range map[string]MainExited{
		"ends":      {PID: 1, Code: 0, What: "slurmctld exited with 0"},
		"is killed": {PID: 1, Code: 137, What: "slurmctld was killed"},
	} {
		gone, actions := Step(deaf, end)
		require.Equal(t, []Action{Exit{exitcode.Failure}}, actions, name)
		require.Equal(t, why, gone.Reason, name)
	}
}

// TestStepRefusedSince: what is read once more, and is as bad as before, is no news.
func TestStepRefusedSince(t *testing.T) {
	at := func(second int) time.Time { return epoch.Add(time.Duration(second) * time.Second) }
	l := running()
	l, _ = Step(l, Revision{Err: errNo, At: at(1)})
	l, _ = Step(l, Revision{Err: errNo, At: at(2)})
	require.Equal(t, at(1), l.Refused.At)
	l, _ = Step(l, Revision{Err: errors.New("another"), At: at(3)})
	require.Equal(t, at(3), l.Refused.At)
	l, _ = Step(l, Revision{Set: second, At: at(4)})
	l, _ = Step(l, Checked{l.put, "staged", nil, false, errNo})
	l, _ = Step(l, Revision{Set: second, At: at(5)})
	require.Equal(t, at(4), l.Refused.At)
	l, _ = Step(l, Revision{Set: second, At: at(6), Forced: true})
	l, _ = Step(l, Checked{l.put, "staged", nil, false, errNo})
	require.Equal(t, at(6), l.Refused.At, "it was tried again")
}

// TestStepOutcomes: an edit is counted once, by what became of it.
func TestStepOutcomes(t *testing.T) {
	type events = []func(State) Event
	tries := func(s *confset.Set) func(State) Event {
		return func(State) Event { return Revision{Set: s, At: epoch} }
	}
	fails := func(why string) func(State) Event { return func(State) Event { return Revision{Err: errors.New(why)} } }
	begins := func(State) Event { return Begun{} }
	inPlace := func(l State) Event { return PlaceEnded{l.put, nil} }
	ends := func(l State) Event { return MainExited{PID: l.Main, Code: 1, What: "no"} }
	up := func(State) Event { return MainStarted{PID: 1, At: epoch} }
	takes := events{tries(second), looks(nil), settles, replies(nil), handsOver, pings}
	atStart := running()
	atStart.Phase, atStart.Main, atStart.WasReady, atStart.Live = Starting, 0, false, nil
	bad, other := atStart, atStart
	bad.Next, other.Next = &Revision{Err: errNo}, &Revision{Set: second}
	for _, c := range []struct {
		name   string
		life   State
		events events
		want   Outcomes
	}{
		{"one that is tried still", running(), takes, Outcomes{}},
		{"all nodes have it", running(), append(slices.Clone(takes), nodesSay(3)), Outcomes{Taken: 1, ReadAt: epoch}},
		{"most nodes have it", running(), append(slices.Clone(takes), nodesSay(3, "a"), timesOut), Outcomes{Taken: 1, ReadAt: epoch}},
		{"most nodes have not", running(), append(slices.Clone(takes), nodesSay(1, "a"), timesOut, nodesSay(1, "a"), timesOut, nodesSay(1, "a"), timesOut), Outcomes{RolledBack: 1}},
		{"slurmctld does not take it", running(), events{tries(second), looks(nil), settles, replies(errNo)}, Outcomes{RolledBack: 1}},
		{"nor the last good one at once", running(), events{tries(second), looks(nil), settles, replies(errNo), replies(errNo), timesOut, replies(nil), handsOver, pings}, Outcomes{RolledBack: 1}},
		{"the check refuses it", running(), events{tries(second), looks(errNo)}, Outcomes{Refused: 1}},
		{"it is read again", running(), events{tries(second), looks(errNo), tries(second)}, Outcomes{Refused: 1}},
		{"it cannot be read", running(), events{fails("x"), fails("x")}, Outcomes{Refused: 1}},
		{"and not for another reason either", running(), events{fails("x"), fails("y")}, Outcomes{Refused: 2}},
		{"another comes during the check", running(), events{tries(second), tries(third), looks(nil), looks(errNo)}, Outcomes{Refused: 1}},
		{"jobs keep it, for long", running(), events{tries(second), looks(errJobs), timesOut, looks(errJobs), timesOut, looks(errJobs)}, Outcomes{Refused: 1}},
		{"jobs keep it, then something else", running(), events{tries(second), looks(errJobs), timesOut, looks(errNo)}, Outcomes{Refused: 2}},
		{"nothing is new", running(), events{tries(first)}, Outcomes{}},
		{"at the start, it cannot be read", bad, events{begins}, Outcomes{Refused: 1}},
		{"at the start, the check refuses it", other, events{begins, looks(errNo)}, Outcomes{Refused: 1}},
		{"at the start, there may be jobs", other, events{begins, looks(errJobs), inPlace, up}, Outcomes{}},
		{"at the start, slurmctld ends over it", other, events{begins, looks(nil), inPlace, up, ends}, Outcomes{RolledBack: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.life
			for _, e := range c.events {
				l, _ = Step(l, e(l))
			}
			require.Equal(t, c.want, l.Outcomes)
		})
	}
}

// TestStepKept: an edit that jobs keep has one beginning, and one verdict.
func TestStepKept(t *testing.T) {
	l := running()
	l, _ = Step(l, Revision{Set: second, At: epoch, Forced: true, Request: 3})
	l, _ = Step(l, Checked{l.put, "", nil, false, errJobs})
	require.Equal(t, 3, l.Resolved)
	l, _ = Step(l, Revision{Set: second, Forced: true, Request: 4, At: epoch.Add(time.Second)})
	l, _ = Step(l, Checked{l.put, "", nil, false, errJobs})
	require.Equal(t, 4, l.Resolved, "by hand it is tried at once")
	since := l.Refused.At
	l, _ = Step(l, ReloadTimerFired{l.clock})
	l, _ = Step(l, Checked{l.put, "", nil, false, InUse{"fewer jobs are in it"}})
	require.Equal(t, since, l.Refused.At)
	require.Equal(t, "fewer jobs are in it", l.Why)
	require.Equal(t, 4, l.Resolved)
}

// TestStepPostponed: a set that there may be jobs for waits for a slurmctld that can tell.
func TestStepPostponed(t *testing.T) {
	begin := func(meanwhile ...func(State) Event) State {
		l := running()
		l.Phase, l.Main, l.WasReady, l.Live = Starting, 0, false, nil
		l.Next = &Revision{Set: second, At: epoch}
		for _, e := range slices.Concat([]func(State) Event{func(State) Event { return Begun{} }}, meanwhile, []func(State) Event{
			looks(errJobs), func(l State) Event { return PlaceEnded{l.put, nil} },
			func(State) Event { return MainStarted{PID: 1, At: epoch} },
		}) {
			l, _ = Step(l, e(l))
		}
		require.Equal(t, first, l.Live, "the last good one is started with")
		return l
	}
	ready, _ := Step(begin(), MainReady{})
	ready, _ = Step(ready, TimerFired{ready.timer})
	ready, actions := Step(ready, pings(ready))
	require.Equal(t, Ready, ready.Phase)
	require.Equal(t, []Action{Check{ready.put, second}}, actions)

	ended, actions := Step(begin(), MainExited{PID: 1, Code: 1, What: "no"})
	require.Equal(t, []Action{Place{ended.put, second, ""}}, actions, "slurmctld does not run with the last good one")
	again := begin()
	again, _ = Step(again, Revision{Set: second, At: epoch.Add(time.Second)})
	again, actions = Step(again, MainExited{PID: 1, Code: 1, What: "no"})
	require.Equal(t, []Action{Place{again.put, second, ""}}, actions, "it was read once more meanwhile")
	again, actions = Step(begin(edits(second)), MainExited{PID: 1, Code: 1, What: "no"})
	require.Equal(t, []Action{Place{again.put, second, ""}}, actions, "it was read once more while it was checked")
	other := begin()
	other, _ = Step(other, Revision{Set: third})
	_, actions = Step(other, MainExited{PID: 1, Code: 1, What: "no"})
	require.Equal(t, []Action{Exit{1}}, actions, "the last was not looked at")
}

// TestStepStarted: a set that slurmctld was started with is good when the nodes have it too.
func TestStepStarted(t *testing.T) {
	type events = []func(State) Event
	l := running()
	l.Phase, l.Main, l.WasReady, l.Live = Starting, 0, false, nil
	l.Next = &Revision{Set: second, At: epoch}
	for _, e := range (events{
		func(State) Event { return Begun{} }, looks(nil), func(l State) Event { return PlaceEnded{l.put, nil} },
		func(State) Event { return MainStarted{PID: 1, At: epoch} }, func(State) Event { return MainReady{} },
		func(l State) Event { return TimerFired{l.timer} },
	}) {
		l, _ = Step(l, e(l))
	}
	for _, c := range []struct {
		name       string
		anew       bool // a reconfigure could not put the last good one back
		before     *confset.Set
		events     events
		doing      ConfActivity
		live, good *confset.Set
		last       Action
	}{
		{"it is told to reconfigure", false, first, events{pings}, AwaitingLaunches, second, first, AwaitLaunches{3, SendLimit}},
		{"as by an edit", false, first, events{pings, settles}, Reconfiguring, second, first, Reconfigure{4, second, ""}},
		{"the nodes take it", false, first, events{pings, settles, replies(nil), handsOver, pings, nodesSay(3)}, ConfIdle, second, second, Keep{second}},
		{"they run with another, and go on with it", false, first, slices.Concat(events{pings, settles, replies(nil), handsOver, pings}, slices.Repeat(events{nodesSay(0, "a")}, surelyMissed+1), events{nodesSay(0, "a"), timesOut}), Restoring, first, first, Reconfigure{15, first, ""}},
		{"nobody has heard of them", false, first, events{pings, settles, replies(nil), handsOver, pings, nodesSaySilent(0, "a"), timesOut}, Spreading, second, first, ArmReload{3, spreadLimit}},
		{"an edit comes first", false, first, events{pings, edits(third), settles}, Checking, second, first, Check{4, third}},
		{"and is refused", false, first, events{pings, edits(third), settles, looks(errNo)}, Restoring, first, first, Reconfigure{5, first, ""}},
		{"its port is another: the nodes are made anew too", true, first, events{pings}, ConfIdle, second, second, Keep{second}},
		{"there was none before", false, nil, events{pings}, ConfIdle, second, second, Keep{second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, actions := l, []Action(nil)
			l.anew, l.Good = c.anew, c.before
			for _, e := range c.events {
				l, actions = Step(l, e(l))
			}
			require.Equal(t, c.doing, l.ConfActivity)
			require.Equal(t, c.live, l.Live)
			require.Equal(t, c.good, l.Good)
			require.Contains(t, actions, c.last)
		})
	}
}

// TestStepVerdict: whoever waits for a verdict gets that of the last content.
func TestStepVerdict(t *testing.T) {
	l := running()
	l, _ = Step(l, Revision{Set: first, Forced: true, Request: 1})
	require.Equal(t, Checking, l.ConfActivity, "what is live is tried if it is forced")
	l, _ = Step(l, Revision{Set: second})
	l, _ = Step(l, Checked{l.put, "staged", nil, false, nil})
	require.Zero(t, l.Resolved)
	l, _ = Step(l, Checked{l.put, "staged", nil, false, errNo})
	require.Equal(t, 1, l.Resolved)
	require.Equal(t, "no", l.Result)
}

// TestRestartedNodeIsSilent: slurmctld, started anew, has heard of no node when the time of
// the one whose slurmd was restarted is over.
func TestRestartedNodeIsSilent(t *testing.T) {
	l := running()
	l.ConfActivity, l.Live, l.trying = RestartingOne, second, &Revision{Set: second}
	l.Canary, l.counted, l.Unheard = "a", true, []string{"a", "b"}
	l, _ = Step(l, ReloadTimerFired{l.clock})
	require.Equal(t, Restoring, l.ConfActivity)
	require.Contains(t, l.Why, "the log of a says why")
}
