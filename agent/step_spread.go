package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// following is what slurmctld has told of the nodes since it took the set that is tried.
type following struct {
	// took counts the nodes that have another slurmd since; missed have answered, and go
	// on with the slurmd that they had; of the unheard slurmctld has not
	// been told yet that they live.
	took            int
	missed, unheard []string
	// counted: slurmctld has told since the clock was set. grew: of more nodes than before.
	counted, grew bool
	// mute counts clocks in a row in which slurmctld did not answer, waits all of them.
	mute, waits int
	// canary is the node whose slurmd is restarted into the set before any other, urged: it
	// came up with it, so that the others are restarted too.
	canary string
	urged  bool
	// untold is why slurmctld did not tell.
	untold string
}

const (
	// spreadLimit is how long the nodes may take. Pushing through the tree costs
	// a few seconds on thousands of them. As long as more of them answer, they get as
	// much again.
	spreadLimit = 30 * time.Second
	// mostWaits is how often. Then those that have answered decide, and where none has,
	// whoever waits for the verdict is told so.
	mostWaits = 20
	firstLook = 100 * time.Millisecond
	// lookCost is how many times as long as a look took there is none, up to lookRest: each
	// costs slurmctld all nodes.
	lookCost, lookRest = 2, 10 * time.Second
	// surelyMissed is after how many looks, 11 s in all, nodes that go on with the
	// slurmd they had, and none that does not, have not followed.
	surelyMissed = 7
	// restartLimit is how long one node's slurmd may take to be restarted and to register. Its
	// agent may have to find a slurmctld that was started anew.
	restartLimit = time.Minute
)

// spreadOut: slurmctld has taken the set, and its nodes are counted.
func (l life) spreadOut() (life, []action) {
	l.reloading, l.attempts, l.following = spreading, 0, following{}
	l, limit := l.setClock(spreadLimit)
	l, look := l.lookAtNodes(0)
	return l, []action{look, limit}
}

// lookAtNodes asks after a while which nodes have taken the set, and has some restarted
// into it.
func (l life) lookAtNodes(cost time.Duration) (life, action) {
	last := lastTry
	if l.waits > 0 {
		last = lastPause
	}
	l.put++
	return l, askNodes{l.put, max(grow(firstLook, l.attempts, last), min(lookCost*cost, lookRest)), l.urges()}
}

// urges are the nodes that have answered and not followed, once the set is known to be
// one that slurmd takes: a slurmd that cannot reconfigure from what it runs with takes it as
// it starts. Jobs and their steps live on.
func (l life) urges() []string {
	switch {
	case l.reloading == restarting:
		return []string{l.canary}
	case l.urged, l.took > len(l.missed) && l.attempts >= surelyMissed:
		return l.missed
	}
	return nil
}

// count: so many nodes have taken the new set.
func (l life) count(e nodesAsked) (life, []action) {
	if e.number != l.put || l.reloading != spreading && l.reloading != restarting || l.isOver() {
		return l, nil
	}
	l = l.hear(e)
	switch {
	case e.err != nil:
	case len(e.missed)+len(e.unheard) == 0, l.next != nil && l.mostTook():
		return l.adopt()
	case l.reloading == restarting && e.canary:
		return l.urgeAll()
	case l.reloading == spreading && e.took == 0 && len(e.unheard) == 0 && l.attempts >= surelyMissed:
		return l.doubtRefusal()
	}
	l.attempts++
	l, look := l.lookAtNodes(e.cost)
	return l, []action{look}
}

func (l life) hear(e nodesAsked) life {
	if e.err != nil {
		l.untold = e.err.Error()
		if !errors.Is(e.err, slurm.ErrUnreachable) {
			l.mute = 0
		}
		return l
	}
	l.grew = l.grew || e.took+len(e.missed) > l.took+len(l.missed)
	l.took, l.missed, l.unheard = e.took, e.missed, e.unheard
	l.counted, l.mute, l.untold = true, 0, ""
	return l
}

// mostTook: a few nodes that are silent keep nobody from the next edit, nor
// from this one.
func (l life) mostTook() bool { return l.took > len(l.missed)+len(l.unheard) }

// notTaken: slurmd says why in its own log, which the agent cannot see from here.
func (l life) notTaken() string {
	return fmt.Sprintf("%d of %d nodes do not take it; the log of %s says why", len(l.missed), l.took+len(l.missed)+len(l.unheard), l.missed[0])
}

// spreadDue: the nodes have had their time. No answer is neither yes nor no: only
// nodes that have answered and not followed refuse a set, and only those that have
// followed make it good.
func (l life) spreadDue() (life, []action) {
	switch {
	case l.mostTook():
		return l.adopt()
	case !l.counted:
		return l.noAnswer()
	case l.reloading == restarting:
		return l.refuse(l.notTaken())
	case l.grew && l.waits < mostWaits:
		return l.waitOn()
	case l.took > len(l.missed):
		return l.adopt() // of the others nothing is known
	case len(l.missed) > 0:
		return l.doubtRefusal()
	}
	return l.noAnswer()
}

// noAnswer: slurmctld, or every node, is silent. The next edit does not wait for them.
func (l life) noAnswer() (life, []action) {
	if !l.counted {
		l.mute++
	}
	switch {
	case time.Duration(l.mute)*spreadLimit >= hangs*takeLimit:
		return l.endHung(fmt.Sprintf("slurmctld hangs: it has not told for %v which nodes have its configuration", hangs*takeLimit))
	case l.next != nil && l.state == Ready:
		return l.supersede()
	}
	return l.waitOn()
}

func (l life) waitOn() (life, []action) {
	l.waits++
	if l.waits == mostWaits && l.trying.ticket > 0 {
		l.judged, l.verdict = l.trying.ticket, "not known: "+l.awaits()
	}
	l.counted, l.grew = false, false
	l, limit := l.setClock(spreadLimit)
	return l, []action{limit}
}

// awaits says what the nodes are waited for with.
func (l life) awaits() string {
	all := l.took + len(l.missed) + len(l.unheard)
	switch {
	case l.reloading == restarting:
		return fmt.Sprintf("%s: %s, since %d of %d nodes have not taken it", l.reloading, l.canary, len(l.missed), all)
	case l.untold != "":
		return fmt.Sprintf("%s: %s", l.reloading, l.untold)
	case len(l.unheard) > 0:
		return fmt.Sprintf("%s: %d of %d have; %d have not registered since, %s among them", l.reloading, l.took, all, len(l.unheard), l.unheard[0])
	}
	return fmt.Sprintf("%s: %d of %d have", l.reloading, l.took, all)
}

// supersede lets the next edit have its turn, though nobody knows of this one whether it
// is good.
func (l life) supersede() (life, []action) {
	if l.next.err == nil && l.next.set.Same(l.trying.set) {
		l.trying, l.next = l.next.over(l.trying), nil
		return l.waitOn()
	}
	l.next, l.trying, l.unsettled = l.next.over(l.trying), nil, true
	return l.carryOn()
}

// doubtRefusal: most nodes that have answered go on with the slurmd that they had. It may
// be that slurmd cannot reconfigure from what it runs with, or that no push has come: one is
// restarted into the set, and tells.
func (l life) doubtRefusal() (life, []action) {
	if l.urged {
		return l.refuse(l.notTaken())
	}
	l.reloading, l.canary, l.attempts, l.counted = restarting, l.missed[0], 0, false
	l, limit := l.setClock(restartLimit)
	l, look := l.lookAtNodes(0)
	return l, []action{look, limit}
}

// urgeAll: a slurmd that starts with the set comes up.
func (l life) urgeAll() (life, []action) {
	l.reloading, l.urged, l.attempts, l.counted, l.grew = spreading, true, 0, true, true
	l.missed = slices.DeleteFunc(slices.Clone(l.missed), func(name string) bool { return name == l.canary })
	l, limit := l.setClock(spreadLimit)
	l, look := l.lookAtNodes(0)
	return l, []action{look, limit}
}

// adopt makes the live set the last good one.
func (l life) adopt() (life, []action) {
	adopted := l.trying
	l.good, l.trying, l.refused, l.why = l.live, nil, nil, ""
	l.reloading, l.unsettled, l.brooded = quiet, false, ""
	l.outcomes.taken++
	l.outcomes.edited = adopted.at
	l.clock++
	l.put++
	l = l.judge(adopted, "")
	l, actions := l.tryNext()
	return l, append([]action{keep{l.good}}, actions...)
}
