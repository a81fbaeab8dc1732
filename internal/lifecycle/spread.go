package lifecycle

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// following is what slurmctld has told of the nodes since it took the set that is tried.
type following struct {
	// Took counts the nodes that have another slurmd since; missed have answered, and go
	// on with the slurmd that they had; of the unheard slurmctld has not
	// been told yet that they live.
	Took            int
	Missed, Unheard []string
	// counted: slurmctld has told since the clock was set. grew: of more nodes than before.
	counted, grew bool
	// mute counts clocks in a row in which slurmctld did not answer, waits all of them.
	mute, waits int
	// Canary is the node whose slurmd is restarted into the set before any other. RestartAll: it
	// came up with it, so that the others are restarted too.
	Canary     string
	RestartAll bool
	// untold is why slurmctld did not tell.
	untold string
}

const (
	// spreadLimit is how long the nodes may take. Pushing through the tree costs
	// a few seconds on thousands of them. As long as more of them answer, they get as
	// much again.
	spreadLimit = 30 * time.Second
	// mostWaits is how often. Then those that have answered decide, and where none has,
	// whoever waits for the result is told so.
	mostWaits = 20
	FirstLook = 100 * time.Millisecond
	// lookCost is how many times as long as a look took there is none, up to lookRest: each
	// costs slurmctld all nodes.
	lookCost, lookRest = 2, 10 * time.Second
	// surelyMissed is after how many looks, 11 s in all, nodes that go on with the
	// slurmd they had, and none that does not, have not followed.
	surelyMissed = 7
	// RestartLimit is how long one node's slurmd may take to be restarted and to register. Its
	// agent may have to find a slurmctld that was started anew.
	RestartLimit = time.Minute
)

// spreadOut: slurmctld has taken the set, and its nodes are counted.
func (l State) spreadOut() (State, []Action) {
	l.ConfActivity, l.attempts, l.following = Spreading, 0, following{}
	l, limit := l.setClock(spreadLimit)
	l, look := l.lookAtNodes(0)
	return l, []Action{look, limit}
}

// lookAtNodes asks after a while which nodes have taken the set, and has some restarted
// into it.
func (l State) lookAtNodes(cost time.Duration) (State, Action) {
	last := backoff.LastTry
	if l.waits > 0 {
		last = backoff.LastPause
	}
	l.put++
	return l, AskNodes{l.put, max(backoff.Grow(FirstLook, l.attempts, last), min(lookCost*cost, lookRest)), l.urges()}
}

// urges are the nodes that have answered and not followed, once the set is known to be
// one that slurmd takes: a slurmd that cannot reconfigure from what it runs with takes it as
// it starts. Jobs and their steps live on.
func (l State) urges() []string {
	switch {
	case l.ConfActivity == RestartingOne:
		return []string{l.Canary}
	case l.RestartAll, l.Took > len(l.Missed) && l.attempts >= surelyMissed:
		return l.Missed
	}
	return nil
}

// count: so many nodes have taken the new set.
func (l State) count(e NodesAsked) (State, []Action) {
	if e.Number != l.put || l.ConfActivity != Spreading && l.ConfActivity != RestartingOne || l.IsOver() {
		return l, nil
	}
	l = l.hear(e)
	switch {
	case e.Err != nil:
	case len(e.Missed)+len(e.Unheard) == 0, l.Next != nil && l.mostTook():
		return l.adopt()
	case l.ConfActivity == RestartingOne && e.Canary:
		return l.urgeAll()
	case l.ConfActivity == Spreading && e.Took == 0 && len(e.Unheard) == 0 && l.attempts >= surelyMissed:
		return l.doubtRefusal()
	}
	l.attempts++
	l, look := l.lookAtNodes(e.Cost)
	return l, []Action{look}
}

func (l State) hear(e NodesAsked) State {
	if e.Err != nil {
		l.untold = e.Err.Error()
		if !errors.Is(e.Err, slurm.ErrUnreachable) {
			l.mute = 0
		}
		return l
	}
	l.grew = l.grew || e.Took+len(e.Missed) > l.Took+len(l.Missed)
	l.Took, l.Missed, l.Unheard = e.Took, e.Missed, e.Unheard
	l.counted, l.mute, l.untold = true, 0, ""
	return l
}

// mostTook: a few nodes that are silent keep nobody from the next edit, nor
// from this one.
func (l State) mostTook() bool { return l.Took > len(l.Missed)+len(l.Unheard) }

// notTaken: slurmd says why in its own log, which the agent cannot see from here.
func (l State) notTaken() string {
	node := l.Canary // slurmctld may have been told of no node since
	if len(l.Missed) > 0 {
		node = l.Missed[0]
	}
	return fmt.Sprintf("%d of %d nodes do not take it; the log of %s says why", len(l.Missed), l.Took+len(l.Missed)+len(l.Unheard), node)
}

// spreadDue: the nodes have had their time. No answer is neither yes nor no: only
// nodes that have answered and not followed refuse a set, and only those that have
// followed make it good.
func (l State) spreadDue() (State, []Action) {
	switch {
	case l.mostTook():
		return l.adopt()
	case !l.counted:
		return l.noAnswer()
	case l.ConfActivity == RestartingOne:
		return l.refuse(l.notTaken())
	case l.grew && l.waits < mostWaits:
		return l.waitOn()
	case l.Took > len(l.Missed):
		return l.adopt() // of the others nothing is known
	case len(l.Missed) > 0:
		return l.doubtRefusal()
	}
	return l.noAnswer()
}

// noAnswer: slurmctld, or every node, is silent. The next edit does not wait for them.
func (l State) noAnswer() (State, []Action) {
	if !l.counted {
		l.mute++
	}
	switch {
	case time.Duration(l.mute)*spreadLimit >= hangs*TakeLimit:
		return l.endHung(fmt.Sprintf("slurmctld hangs: it has not told for %v which nodes have its configuration", hangs*TakeLimit))
	case l.Next != nil && l.Phase == Ready:
		return l.supersede()
	}
	return l.waitOn()
}

func (l State) waitOn() (State, []Action) {
	l.waits++
	if l.waits == mostWaits && l.trying.Request > 0 {
		l.Resolved, l.Result = l.trying.Request, "not known: "+l.Awaits()
	}
	l.counted, l.grew = false, false
	l, limit := l.setClock(spreadLimit)
	return l, []Action{limit}
}

// Awaits says what the nodes are waited for with.
func (l State) Awaits() string {
	all := l.Took + len(l.Missed) + len(l.Unheard)
	switch {
	case l.ConfActivity == RestartingOne:
		return fmt.Sprintf("%s: %s, since %d of %d nodes have not taken it", l.ConfActivity, l.Canary, len(l.Missed), all)
	case l.untold != "":
		return fmt.Sprintf("%s: %s", l.ConfActivity, l.untold)
	case len(l.Unheard) > 0:
		return fmt.Sprintf("%s: %d of %d have; %d have not registered since, %s among them", l.ConfActivity, l.Took, all, len(l.Unheard), l.Unheard[0])
	}
	return fmt.Sprintf("%s: %d of %d have", l.ConfActivity, l.Took, all)
}

// supersede lets the next edit have its turn, though nobody knows of this one whether it
// is good.
func (l State) supersede() (State, []Action) {
	if l.Next.Err == nil && l.Next.Set.Same(l.trying.Set) {
		l.trying, l.Next = l.Next.over(l.trying), nil
		return l.waitOn()
	}
	l.Next, l.trying, l.Unsettled = l.Next.over(l.trying), nil, true
	return l.carryOn()
}

// doubtRefusal: most nodes that have answered go on with the slurmd that they had. It may
// be that slurmd cannot reconfigure from what it runs with, or that no push has come: one is
// restarted into the set, and tells.
func (l State) doubtRefusal() (State, []Action) {
	if l.RestartAll {
		return l.refuse(l.notTaken())
	}
	l.ConfActivity, l.Canary, l.attempts, l.counted = RestartingOne, l.Missed[0], 0, false
	l, limit := l.setClock(RestartLimit)
	l, look := l.lookAtNodes(0)
	return l, []Action{look, limit}
}

// urgeAll: a slurmd that starts with the set comes up.
func (l State) urgeAll() (State, []Action) {
	l.ConfActivity, l.RestartAll, l.attempts, l.counted, l.grew = Spreading, true, 0, true, true
	l.Missed = slices.DeleteFunc(slices.Clone(l.Missed), func(name string) bool { return name == l.Canary })
	l, limit := l.setClock(spreadLimit)
	l, look := l.lookAtNodes(0)
	return l, []Action{look, limit}
}

// adopt makes the live set the last good one.
func (l State) adopt() (State, []Action) {
	adopted := l.trying
	l.Good, l.trying, l.Refused, l.Why = l.Live, nil, nil, ""
	l.ConfActivity, l.Unsettled, l.NotRestored = ConfIdle, false, ""
	l.Outcomes.Taken++
	l.Outcomes.ReadAt = adopted.At
	l.clock++
	l.put++
	l = l.resolve(adopted, "")
	l, actions := l.tryNext()
	return l, append([]Action{Keep{l.Good}}, actions...)
}
