package agent

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/confset"
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
func running() life {
	l := newLife(plan{announces: true, reloads: true, way: newWayDown(30*time.Second, 0)}, nodesize.Allocation{})
	l.state, l.main, l.wasReady, l.live, l.good = Ready, 1, true, first, first
	return l
}

// the events of a reload, in the words of the tables below.
func edits(s *confset.Set) func(life) event { return func(life) event { return edition{set: s} } }

func looks(err error) func(life) event {
	return func(l life) event { return checked{l.put, "staged", nil, false, err} }
}

// jobsAppear while launches are waited for.
func jobsAppear(l life) event { return launchesOver{l.put, errJobs} }

var errJobs = inUse{"jobs are in it"}

func settles(l life) event { return launchesOver{number: l.put} }

func replies(err error) func(life) event {
	return func(l life) event { return reconfigureEnded{l.put, err} }
}

func handsOver(l life) event { return mainChanged{pid: l.main + 1, at: epoch} }

func pings(l life) event { return answered{number: l.question} }

func nodesSay(took int, missed ...string) func(life) event {
	return func(l life) event { return nodesAsked{number: l.put, took: took, missed: missed} }
}

// nodesSaySilent: slurmctld has not heard of the others since.
func nodesSaySilent(took int, silent ...string) func(life) event {
	return func(l life) event { return nodesAsked{number: l.put, took: took, unheard: silent} }
}

// restarted: the one whose slurmd was restarted has come up with the set.
func restarted(took int, missed ...string) func(life) event {
	return func(l life) event { return nodesAsked{number: l.put, took: took, missed: missed, canary: true} }
}

func timesOut(l life) event { return reloadTimer{l.clock} }

func terminates(life) event { return terminated{signal: "SIGTERM"} }

func TestStepReload(t *testing.T) {
	type events = []func(life) event
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
		doing      reloading
		live, good *confset.Set
		refused    string
		last       action // of the last event, nil for none
	}{
		{"the same again", events{edits(first)}, quiet, first, first, "", nil},
		{"an edit is checked", events{edits(second)}, checking, first, first, "", check{1, second}},
		{"then launches are waited for", events{edits(second), looks(nil)}, sending, first, first, "", awaitLaunches{2, sendLimit}},
		{"longer for other keys", events{edits(rekeyed), looks(nil)}, sending, first, first, "", awaitLaunches{2, keySendLimit}},
		{"and it is put in place", events{edits(second), looks(nil), settles}, reconfiguring, second, first, "", reconfigure{3, second, "staged"}},
		{"a check that fails changes nothing", events{edits(second), looks(errNo)}, quiet, first, first, "no", nil},
		{"the answer alone is not enough", events{edits(second), looks(nil), settles, replies(nil)}, reconfiguring, second, first, "", nil},
		{"nor is the hand-over", events{edits(second), looks(nil), settles, handsOver, pings}, reconfiguring, second, first, "", nil},
		{"both are", append(events{edits(second)}, takes...), spreading, second, first, "", askNodes{4, firstLook, nil}},
		{"no answer, but a hand-over", events{edits(second), looks(nil), settles, replies(slurm.ErrUnreachable), handsOver, pings}, spreading, second, first, "", askNodes{4, firstLook, nil}},
		{"the nodes have it", append(append(events{edits(second)}, takes...), nodesSay(3)), quiet, second, second, "", keep{second}},
		{"some nodes have not yet", append(append(events{edits(second)}, takes...), nodesSay(2, "a")), spreading, second, first, "", askNodes{5, 2 * firstLook, nil}},
		{"and do not get it", append(append(events{edits(second)}, takes...), nodesSay(2, "a"), timesOut), quiet, second, second, "", keep{second}},
		{"half of them have: they get more time", half, spreading, second, first, "", armReload{3, spreadLimit}},
		{"and no more have then: one slurmd is restarted into it", append(half, nodesSay(1, "a"), timesOut), restarting, second, first, "", askNodes{7, firstLook, []string{"a"}}},
		{"slurmctld does not tell what became of it: nothing is refused", append(half, nodesSay(1, "a"), timesOut, timesOut), restarting, second, first, "", armReload{5, spreadLimit}},
		{
			"it does not come up", append(half, nodesSay(1, "a"), timesOut, nodesSay(1, "a"), timesOut),
			restoring, first, first, "1 of 2 nodes do not take it; the log of a says why",
			reconfigure{9, first, ""},
		},
		{"none has, for long: one slurmd is restarted into it", none, restarting, second, first, "", askNodes{12, firstLook, []string{"a"}}},
		{"it comes up: all are", append(none, restarted(1, "b", "c")), spreading, second, first, "", askNodes{13, firstLook, []string{"b", "c"}}},
		{"and come up", append(none, restarted(1, "b", "c"), nodesSay(3)), quiet, second, second, "", keep{second}},
		{"and most do not", append(none, restarted(1, "b", "c"), nodesSay(1, "b", "c"), timesOut, nodesSay(1, "b", "c"), timesOut), restoring, first, first, "2 of 3 nodes do not take it; the log of b says why", reconfigure{16, first, ""}},
		{"a few go on with their slurmd: they are restarted", append(append(events{edits(second)}, takes...), some...), spreading, second, first, "", askNodes{12, lastTry, []string{"a"}}},
		{"slurmctld has not heard of the others: those that took it count", append(append(events{edits(second)}, takes...), nodesSaySilent(1, "a", "b"), timesOut, nodesSaySilent(1, "a", "b"), timesOut), quiet, second, second, "", keep{second}},
		{"slurmctld has heard of none: neither yes nor no", append(append(events{edits(second)}, takes...), nodesSaySilent(0, "a", "b"), timesOut, nodesSaySilent(0, "a", "b"), timesOut), spreading, second, first, "", armReload{4, spreadLimit}},
		{"but the next edit has its turn", append(append(events{edits(second)}, takes...), nodesSaySilent(0, "a", "b"), edits(third), timesOut), checking, second, first, "", check{6, third}},
		{"if that is refused, the last good one is put back", append(append(events{edits(second)}, takes...), nodesSaySilent(0, "a", "b"), edits(third), timesOut, looks(errNo)), restoring, first, first, "no", reconfigure{7, first, ""}},
		{"the same again is no other", append(append(events{edits(second)}, takes...), nodesSaySilent(0, "a", "b"), edits(second), timesOut), spreading, second, first, "", armReload{3, spreadLimit}},
		{"slurmctld never tells: it is ended", append(append(events{edits(second)}, takes...), slices.Repeat(events{timesOut}, 12)...), restoring, second, first, "", signalMain{sigTerm}},
		{"slurmctld does not tell: nothing is refused", append(append(events{edits(second)}, takes...), timesOut), spreading, second, first, "", armReload{3, spreadLimit}},
		{"half of the nodes have not registered yet", append(append(events{edits(second)}, takes...), nodesSaySilent(1, "a"), timesOut), spreading, second, first, "", armReload{3, spreadLimit}},
		{"slurmctld refuses: the last good one, and a reconfigure", events{edits(second), looks(nil), settles, replies(errNo)}, restoring, first, first, "no", reconfigure{4, first, ""}},
		{"slurmctld is silent, which is no refusal", events{edits(second), looks(nil), settles, timesOut}, reconfiguring, second, first, "", reconfigure{4, second, ""}},
		{"it is back", events{edits(second), looks(nil), settles, replies(errNo), replies(nil), handsOver, pings}, quiet, first, first, "no", nil},
		{"it cannot be put back, and is tried again", events{edits(second), looks(nil), settles, replies(errNo), replies(errNo), timesOut}, restoring, first, first, "no", reconfigure{5, first, ""}},
		{"slurmctld does not answer at all: it is ended", append(events{edits(second), looks(nil), settles}, silence...), restoring, second, first, "", signalMain{sigTerm}},
		{"an answer in between: it is not", append(append(events{edits(second), looks(nil), settles}, silence[:4]...), replies(errNo)), restoring, first, first, "no", reconfigure{6, first, ""}},
		{"what was refused is not tried again", events{edits(second), looks(errNo), edits(second)}, quiet, first, first, "no", nil},
		{"back to what is live", events{edits(second), looks(errNo), edits(first)}, quiet, first, first, "", nil},
		{"an edit during the check: only the last", events{edits(second), edits(third), looks(nil)}, checking, first, first, "", check{2, third}},
		{"an edit during the wait for launches: only the last", events{edits(second), looks(nil), edits(third), settles}, checking, first, first, "", check{3, third}},
		{"an edit during the reconfigure waits", events{edits(second), looks(nil), settles, edits(third)}, reconfiguring, second, first, "", nil},
		{"until it is its turn", append(append(events{edits(second)}, takes...), edits(third), nodesSay(3)), checking, second, second, "", check{6, third}},
		{"a few silent nodes do not keep it", append(append(events{edits(second)}, takes...), nodesSay(3, "a"), edits(third)), checking, second, second, "", check{7, third}},
		{"an edit while the last good one cannot be put back", events{edits(second), looks(nil), settles, replies(errNo), replies(errNo), edits(third)}, checking, first, first, "no", check{5, third}},
		{"jobs keep it: it waits", events{edits(second), looks(errJobs)}, quiet, first, first, "jobs are in it", armReload{1, inUsePause}},
		{"and is looked at again", events{edits(second), looks(errJobs), timesOut}, checking, first, first, "jobs are in it", check{2, second}},
		{"and again", events{edits(second), looks(errJobs), timesOut, looks(errJobs)}, quiet, first, first, "jobs are in it", armReload{2, inUsePause}},
		{"until they are over", events{edits(second), looks(errJobs), timesOut, looks(nil), settles}, reconfiguring, second, first, "jobs are in it", reconfigure{4, second, "staged"}},
		{"read once more, it waits on", events{edits(second), looks(errJobs), edits(second)}, quiet, first, first, "jobs are in it", armReload{2, inUsePause}},
		{"back to what is live, nothing waits", events{edits(second), looks(errJobs), edits(first), timesOut}, quiet, first, first, "", nil},
		{"another edit takes its place", events{edits(second), looks(errJobs), edits(third), looks(errNo), timesOut}, quiet, first, first, "no", nil},
		{"other faults are found first", events{edits(second), looks(errJobs), timesOut, looks(errNo), timesOut}, quiet, first, first, "no", nil},
		{"jobs come while launches are waited for", events{edits(second), looks(nil), jobsAppear}, quiet, first, first, "jobs are in it", armReload{1, inUsePause}},
		{"an edit and jobs come then", events{edits(second), looks(nil), edits(third), jobsAppear}, checking, first, first, "", check{3, third}},
		{"slurmctld is reconfigured by somebody else meanwhile", events{edits(second), looks(errJobs), handsOver, timesOut, pings}, checking, first, first, "jobs are in it", check{2, second}},
		{"the last good one goes back first", events{edits(second), looks(nil), settles, replies(errNo), edits(third), replies(nil), handsOver, pings, looks(errJobs)}, quiet, first, first, "jobs are in it", armReload{4, inUsePause}},
		{"after SIGTERM no jobs are waited for", events{edits(second), looks(errJobs), terminates, timesOut}, quiet, first, first, "jobs are in it", nil},
		{"after SIGTERM nothing is waited for", events{edits(second), looks(nil), terminates, settles}, sending, first, first, "", nil},
		{"after SIGTERM nothing", events{edits(second), terminates, looks(nil)}, checking, first, first, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, actions := running(), []action(nil)
			for _, e := range c.events {
				l, actions = step(l, e(l))
			}
			require.Equal(t, c.doing, l.reloading)
			require.Equal(t, c.live, l.live)
			require.Equal(t, c.good, l.good)
			require.Equal(t, c.refused, l.why)
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
	hung, _ = step(hung, edition{set: second})
	hung, _ = step(hung, checked{hung.put, "staged", nil, false, nil})
	hung, _ = step(hung, launchesOver{number: hung.put})
	for range hangs {
		hung, _ = step(hung, reloadTimer{hung.clock})
	}
	require.Equal(t, replacing, hung.doing)
	const why = "slurmctld hangs: 3 reconfigures in a row had no answer within 2m0s"
	require.Equal(t, why, hung.reason)
	deaf, actions := step(hung, timerFired{hung.timer})
	require.Equal(t, []action{signalMain{sigKill}}, actions)
	for name, end := range map[string]mainExited{
		"ends":      {pid: 1, code: 0, what: "slurmctld exited with 0"},
		"is killed": {pid: 1, code: 137, what: "slurmctld was killed"},
	} {
		gone, actions := step(deaf, end)
		require.Equal(t, []action{exit{ExitFailure}}, actions, name)
		require.Equal(t, why, gone.reason, name)
	}
}

// TestStepRefusedSince: what is read once more, and is as bad as before, is no news.
func TestStepRefusedSince(t *testing.T) {
	at := func(second int) time.Time { return epoch.Add(time.Duration(second) * time.Second) }
	l := running()
	l, _ = step(l, edition{err: errNo, at: at(1)})
	l, _ = step(l, edition{err: errNo, at: at(2)})
	require.Equal(t, at(1), l.refused.at)
	l, _ = step(l, edition{err: errors.New("another"), at: at(3)})
	require.Equal(t, at(3), l.refused.at)
	l, _ = step(l, edition{set: second, at: at(4)})
	l, _ = step(l, checked{l.put, "staged", nil, false, errNo})
	l, _ = step(l, edition{set: second, at: at(5)})
	require.Equal(t, at(4), l.refused.at)
	l, _ = step(l, edition{set: second, at: at(6), forced: true})
	l, _ = step(l, checked{l.put, "staged", nil, false, errNo})
	require.Equal(t, at(6), l.refused.at, "it was tried again")
}

// TestStepOutcomes: an edit is counted once, by what became of it.
func TestStepOutcomes(t *testing.T) {
	type events = []func(life) event
	tries := func(s *confset.Set) func(life) event { return func(life) event { return edition{set: s, at: epoch} } }
	fails := func(why string) func(life) event { return func(life) event { return edition{err: errors.New(why)} } }
	begins := func(life) event { return begun{} }
	inPlace := func(l life) event { return placeEnded{l.put, nil} }
	ends := func(l life) event { return mainExited{pid: l.main, code: 1, what: "no"} }
	up := func(life) event { return mainStarted{pid: 1, at: epoch} }
	takes := events{tries(second), looks(nil), settles, replies(nil), handsOver, pings}
	atStart := running()
	atStart.state, atStart.main, atStart.wasReady, atStart.live = Starting, 0, false, nil
	bad, other := atStart, atStart
	bad.next, other.next = &edition{err: errNo}, &edition{set: second}
	for _, c := range []struct {
		name   string
		life   life
		events events
		want   outcomes
	}{
		{"one that is tried still", running(), takes, outcomes{}},
		{"all nodes have it", running(), append(slices.Clone(takes), nodesSay(3)), outcomes{taken: 1, edited: epoch}},
		{"most nodes have it", running(), append(slices.Clone(takes), nodesSay(3, "a"), timesOut), outcomes{taken: 1, edited: epoch}},
		{"most nodes have not", running(), append(slices.Clone(takes), nodesSay(1, "a"), timesOut, nodesSay(1, "a"), timesOut, nodesSay(1, "a"), timesOut), outcomes{rolledBack: 1}},
		{"slurmctld does not take it", running(), events{tries(second), looks(nil), settles, replies(errNo)}, outcomes{rolledBack: 1}},
		{"nor the last good one at once", running(), events{tries(second), looks(nil), settles, replies(errNo), replies(errNo), timesOut, replies(nil), handsOver, pings}, outcomes{rolledBack: 1}},
		{"the check refuses it", running(), events{tries(second), looks(errNo)}, outcomes{refused: 1}},
		{"it is read again", running(), events{tries(second), looks(errNo), tries(second)}, outcomes{refused: 1}},
		{"it cannot be read", running(), events{fails("x"), fails("x")}, outcomes{refused: 1}},
		{"and not for another reason either", running(), events{fails("x"), fails("y")}, outcomes{refused: 2}},
		{"another comes during the check", running(), events{tries(second), tries(third), looks(nil), looks(errNo)}, outcomes{refused: 1}},
		{"jobs keep it, for long", running(), events{tries(second), looks(errJobs), timesOut, looks(errJobs), timesOut, looks(errJobs)}, outcomes{refused: 1}},
		{"jobs keep it, then something else", running(), events{tries(second), looks(errJobs), timesOut, looks(errNo)}, outcomes{refused: 2}},
		{"nothing is new", running(), events{tries(first)}, outcomes{}},
		{"at the start, it cannot be read", bad, events{begins}, outcomes{refused: 1}},
		{"at the start, the check refuses it", other, events{begins, looks(errNo)}, outcomes{refused: 1}},
		{"at the start, there may be jobs", other, events{begins, looks(errJobs), inPlace, up}, outcomes{}},
		{"at the start, slurmctld ends over it", other, events{begins, looks(nil), inPlace, up, ends}, outcomes{rolledBack: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.life
			for _, e := range c.events {
				l, _ = step(l, e(l))
			}
			require.Equal(t, c.want, l.outcomes)
		})
	}
}

// TestStepKept: an edit that jobs keep has one beginning, and one verdict.
func TestStepKept(t *testing.T) {
	l := running()
	l, _ = step(l, edition{set: second, at: epoch, forced: true, ticket: 3})
	l, _ = step(l, checked{l.put, "", nil, false, errJobs})
	require.Equal(t, 3, l.judged)
	l, _ = step(l, edition{set: second, forced: true, ticket: 4, at: epoch.Add(time.Second)})
	l, _ = step(l, checked{l.put, "", nil, false, errJobs})
	require.Equal(t, 4, l.judged, "by hand it is tried at once")
	since := l.refused.at
	l, _ = step(l, reloadTimer{l.clock})
	l, _ = step(l, checked{l.put, "", nil, false, inUse{"fewer jobs are in it"}})
	require.Equal(t, since, l.refused.at)
	require.Equal(t, "fewer jobs are in it", l.why)
	require.Equal(t, 4, l.judged)
}

// TestStepPostponed: a set that there may be jobs for waits for a slurmctld that can tell.
func TestStepPostponed(t *testing.T) {
	begin := func(meanwhile ...func(life) event) life {
		l := running()
		l.state, l.main, l.wasReady, l.live = Starting, 0, false, nil
		l.next = &edition{set: second, at: epoch}
		for _, e := range slices.Concat([]func(life) event{func(life) event { return begun{} }}, meanwhile, []func(life) event{
			looks(errJobs), func(l life) event { return placeEnded{l.put, nil} },
			func(life) event { return mainStarted{pid: 1, at: epoch} },
		}) {
			l, _ = step(l, e(l))
		}
		require.Equal(t, first, l.live, "the last good one is started with")
		return l
	}
	ready, _ := step(begin(), mainReady{})
	ready, _ = step(ready, timerFired{ready.timer})
	ready, actions := step(ready, pings(ready))
	require.Equal(t, Ready, ready.state)
	require.Equal(t, []action{check{ready.put, second}}, actions)

	ended, actions := step(begin(), mainExited{pid: 1, code: 1, what: "no"})
	require.Equal(t, []action{place{ended.put, second, ""}}, actions, "slurmctld does not run with the last good one")
	again := begin()
	again, _ = step(again, edition{set: second, at: epoch.Add(time.Second)})
	again, actions = step(again, mainExited{pid: 1, code: 1, what: "no"})
	require.Equal(t, []action{place{again.put, second, ""}}, actions, "it was read once more meanwhile")
	again, actions = step(begin(edits(second)), mainExited{pid: 1, code: 1, what: "no"})
	require.Equal(t, []action{place{again.put, second, ""}}, actions, "it was read once more while it was checked")
	other := begin()
	other, _ = step(other, edition{set: third})
	_, actions = step(other, mainExited{pid: 1, code: 1, what: "no"})
	require.Equal(t, []action{exit{1}}, actions, "the last was not looked at")
}

// TestStepStarted: a set that slurmctld was started with is good when the nodes have it too.
func TestStepStarted(t *testing.T) {
	type events = []func(life) event
	l := running()
	l.state, l.main, l.wasReady, l.live = Starting, 0, false, nil
	l.next = &edition{set: second, at: epoch}
	for _, e := range (events{
		func(life) event { return begun{} }, looks(nil), func(l life) event { return placeEnded{l.put, nil} },
		func(life) event { return mainStarted{pid: 1, at: epoch} }, func(life) event { return mainReady{} },
		func(l life) event { return timerFired{l.timer} },
	}) {
		l, _ = step(l, e(l))
	}
	for _, c := range []struct {
		name       string
		anew       bool // a reconfigure could not put the last good one back
		before     *confset.Set
		events     events
		doing      reloading
		live, good *confset.Set
		last       action
	}{
		{"it is told to reconfigure", false, first, events{pings}, sending, second, first, awaitLaunches{3, sendLimit}},
		{"as by an edit", false, first, events{pings, settles}, reconfiguring, second, first, reconfigure{4, second, ""}},
		{"the nodes take it", false, first, events{pings, settles, replies(nil), handsOver, pings, nodesSay(3)}, quiet, second, second, keep{second}},
		{"they run with another, and go on with it", false, first, slices.Concat(events{pings, settles, replies(nil), handsOver, pings}, slices.Repeat(events{nodesSay(0, "a")}, surelyMissed+1), events{nodesSay(0, "a"), timesOut}), restoring, first, first, reconfigure{15, first, ""}},
		{"nobody has heard of them", false, first, events{pings, settles, replies(nil), handsOver, pings, nodesSaySilent(0, "a"), timesOut}, spreading, second, first, armReload{3, spreadLimit}},
		{"an edit comes first", false, first, events{pings, edits(third), settles}, checking, second, first, check{4, third}},
		{"and is refused", false, first, events{pings, edits(third), settles, looks(errNo)}, restoring, first, first, reconfigure{5, first, ""}},
		{"its port is another: the nodes are made anew too", true, first, events{pings}, quiet, second, second, keep{second}},
		{"there was none before", false, nil, events{pings}, quiet, second, second, keep{second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, actions := l, []action(nil)
			l.anew, l.good = c.anew, c.before
			for _, e := range c.events {
				l, actions = step(l, e(l))
			}
			require.Equal(t, c.doing, l.reloading)
			require.Equal(t, c.live, l.live)
			require.Equal(t, c.good, l.good)
			require.Contains(t, actions, c.last)
		})
	}
}

// TestNotLiveYet: a set that slurmctld was started with is not called live, nor announced,
// before its nodes have it.
func TestNotLiveYet(t *testing.T) {
	var said []string
	a := &Agent{Options: Options{Observe: func(n Notice) { said = append(said, n.Text) }}}
	l := running()
	l.live, l.unsettled, l.reloading, l.trying = second, true, sending, &edition{set: second}
	starting := l
	starting.wasReady, starting.reloading = false, quiet
	a.tellReload(starting, l)
	require.Empty(t, said)
}

// TestStepVerdict: whoever waits for a verdict gets that of the last content.
func TestStepVerdict(t *testing.T) {
	l := running()
	l, _ = step(l, edition{set: first, forced: true, ticket: 1})
	require.Equal(t, checking, l.reloading, "what is live is tried if it is forced")
	l, _ = step(l, edition{set: second})
	l, _ = step(l, checked{l.put, "staged", nil, false, nil})
	require.Zero(t, l.judged)
	l, _ = step(l, checked{l.put, "staged", nil, false, errNo})
	require.Equal(t, 1, l.judged)
	require.Equal(t, "no", l.verdict)
}
