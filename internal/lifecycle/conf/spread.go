package conf

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// following is what slurmctld has answered about the nodes since it took the set that is tried.
type following struct {
	// Took counts the nodes that have another slurmd since; missed have answered, and go
	// on with the slurmd that they had; of the unheard slurmctld has not
	// learned yet that they live.
	Took            int
	Missed, Unheard []string
	// counted: slurmctld has answered since the clock was set. grew: of more nodes than before.
	counted, grew bool
	// silences counts clocks in a row in which slurmctld did not answer, waits all of them.
	silences, waits int
	// Canary is the node whose slurmd is restarted into the set before any other. RestartAll: it
	// came up with it, so that the others are restarted too.
	Canary     string
	RestartAll bool
	// unanswered is why slurmctld did not answer.
	unanswered string
}

const (
	// spreadLimit is how long the nodes may take. Pushing through the tree costs
	// a few seconds on thousands of them. As long as more of them answer, they get as
	// much again.
	spreadLimit = 30 * time.Second
	// mostWaits bounds how often the agent waits spreadLimit more. Then those that have answered decide, and where none has,
	// whoever waits for the result gets that answer.
	mostWaits = 20
	FirstLook = 100 * time.Millisecond
	// After a look that took t, there is none for lookCost times t, at most lookRest: each look costs
	// slurmctld all nodes.
	lookCost, lookRest = 2, 10 * time.Second
	// surelyMissed is after how many looks, 11 s in all, nodes that go on with the
	// slurmd they had, and none that does not, have not followed.
	surelyMissed = 7
	// RestartLimit is how long one node's slurmd may take to be restarted and to register. Its
	// agent may have to find a slurmctld that was started anew.
	RestartLimit = time.Minute
)

// spreadOut: slurmctld has taken the set, and its nodes are counted.
func (m machine) spreadOut() (machine, []Action) {
	m.Activity, m.attempts, m.following = Spreading, 0, following{}
	m, limit := m.setClock(spreadLimit)
	m, look := m.lookAtNodes(0)
	return m, []Action{look, limit}
}

// lookAtNodes asks after a while which nodes have taken the set, and has some restarted
// into it.
func (m machine) lookAtNodes(cost time.Duration) (machine, Action) {
	last := backoff.LastTry
	if m.waits > 0 {
		last = backoff.LastPause
	}
	m.Question++
	return m, AskNodes{m.Question, max(backoff.Grow(FirstLook, m.attempts, last), min(lookCost*cost, lookRest)), m.toRestart()}
}

// toRestart are the nodes that have answered and not followed, once the set is known to be
// one that slurmd takes: a slurmd that cannot reconfigure from what it runs with takes it as
// it starts. Jobs and their steps live on.
func (m machine) toRestart() []string {
	switch {
	case m.Activity == RestartingOne:
		return []string{m.Canary}
	case m.RestartAll, m.Took > len(m.Missed) && m.attempts >= surelyMissed:
		return m.Missed
	}
	return nil
}

// nodesCounted: so many nodes have taken the new set.
func (m machine) nodesCounted(e NodesAsked) (machine, []Action) {
	if e.Number != m.Question || m.Activity != Spreading && m.Activity != RestartingOne {
		return m, nil
	}
	m = m.takeAnswer(e)
	switch {
	case e.Err != nil:
	case len(e.Missed)+len(e.Unheard) == 0, m.Next != nil && m.mostTook():
		return m.adopt()
	case m.Activity == RestartingOne && e.Canary:
		return m.restartAll()
	case m.Activity == Spreading && e.Took == 0 && len(e.Unheard) == 0 && m.attempts >= surelyMissed:
		return m.doubtRefusal()
	}
	m.attempts++
	m, look := m.lookAtNodes(e.Cost)
	return m, []Action{look}
}

func (m machine) takeAnswer(e NodesAsked) machine {
	if e.Err != nil {
		m.unanswered = e.Err.Error()
		if !errors.Is(e.Err, slurm.ErrUnreachable) {
			m.silences = 0
		}
		return m
	}
	m.grew = m.grew || e.Took+len(e.Missed) > m.Took+len(m.Missed)
	m.Took, m.Missed, m.Unheard = e.Took, e.Missed, e.Unheard
	m.counted, m.silences, m.unanswered = true, 0, ""
	return m
}

// mostTook: a few nodes that are silent keep nobody from the next edit, nor
// from this one.
func (m machine) mostTook() bool { return m.Took > len(m.Missed)+len(m.Unheard) }

// notTaken: slurmd says why in its own log, which the agent cannot see from here.
func (m machine) notTaken() string {
	node := m.Canary // slurmctld may have heard of no node since
	if len(m.Missed) > 0 {
		node = m.Missed[0]
	}
	return fmt.Sprintf("%d of %d nodes do not take it; the log of %s says why", len(m.Missed), m.Took+len(m.Missed)+len(m.Unheard), node)
}

// spreadDue: the nodes have had their time. No answer is neither yes nor no: only
// nodes that have answered and not followed refuse a set, and only those that have
// followed make it good.
func (m machine) spreadDue() (machine, []Action) {
	switch {
	case m.mostTook():
		return m.adopt()
	case !m.counted:
		return m.noAnswer()
	case m.Activity == RestartingOne:
		return m.refuse(m.notTaken())
	case m.grew && m.waits < mostWaits:
		return m.waitOn()
	case m.Took > len(m.Missed):
		return m.adopt() // of the others nothing is known
	case len(m.Missed) > 0:
		return m.doubtRefusal()
	}
	return m.noAnswer()
}

// noAnswer: slurmctld, or every node, is silent. The next edit does not wait for them.
func (m machine) noAnswer() (machine, []Action) {
	if !m.counted {
		m.silences++
	}
	switch {
	case time.Duration(m.silences)*spreadLimit >= hangsAfter*TakeLimit:
		return m.endHung(fmt.Sprintf("slurmctld hangs: it has not said for %v which nodes have its configuration", hangsAfter*TakeLimit))
	case m.Next != nil && m.Ready:
		return m.supersede()
	}
	return m.waitOn()
}

func (m machine) waitOn() (machine, []Action) {
	m.waits++
	if m.waits == mostWaits && m.Trying.Request > 0 {
		m.Resolved, m.Result = m.Trying.Request, "not known: "+m.Awaits()
	}
	m.counted, m.grew = false, false
	m, limit := m.setClock(spreadLimit)
	return m, []Action{limit}
}

// Awaits says, for the status, what is still missing until all nodes have the configuration.
func (c State) Awaits() string {
	all := c.Took + len(c.Missed) + len(c.Unheard)
	switch {
	case c.Activity == RestartingOne:
		return fmt.Sprintf("%s: %s, since %d of %d nodes have not taken it", c.Activity, c.Canary, len(c.Missed), all)
	case c.unanswered != "":
		return fmt.Sprintf("%s: %s", c.Activity, c.unanswered)
	case len(c.Unheard) > 0:
		return fmt.Sprintf("%s: %d of %d have; %d have not registered since, %s among them", c.Activity, c.Took, all,
			len(c.Unheard), c.Unheard[0])
	}
	return fmt.Sprintf("%s: %d of %d have", c.Activity, c.Took, all)
}

// supersede lets the next edit have its turn, though nobody knows of this one whether it
// is good.
func (m machine) supersede() (machine, []Action) {
	if m.Next.Err == nil && m.Next.Set.Same(m.Trying.Set) {
		m.Trying, m.Next = m.Next.over(m.Trying), nil
		return m.waitOn()
	}
	m.Next, m.Trying, m.Unsettled = m.Next.over(m.Trying), nil, true
	return m.carryOn()
}

// doubtRefusal: most nodes that have answered go on with the slurmd that they had. It may
// be that slurmd cannot reconfigure from what it runs with, or that no push has come: one is
// restarted into the set, and says so.
func (m machine) doubtRefusal() (machine, []Action) {
	if m.RestartAll {
		return m.refuse(m.notTaken())
	}
	m.Activity, m.Canary, m.attempts, m.counted = RestartingOne, m.Missed[0], 0, false
	m, limit := m.setClock(RestartLimit)
	m, look := m.lookAtNodes(0)
	return m, []Action{look, limit}
}

// restartAll: a slurmd that starts with the set comes up.
func (m machine) restartAll() (machine, []Action) {
	m.Activity, m.RestartAll, m.attempts, m.counted, m.grew = Spreading, true, 0, true, true
	m.Missed = slices.DeleteFunc(slices.Clone(m.Missed), func(name string) bool { return name == m.Canary })
	m, limit := m.setClock(spreadLimit)
	m, look := m.lookAtNodes(0)
	return m, []Action{look, limit}
}

// adopt makes the live set the last good one.
func (m machine) adopt() (machine, []Action) {
	adopted := m.Trying
	m.Good, m.Trying, m.Refused, m.Why = m.Live, nil, nil, ""
	m.Activity, m.Unsettled, m.NotRestored = Idle, false, ""
	m.Outcomes.Taken++
	m.Outcomes.ReadAt = adopted.At
	m.Timer++
	m.Question++
	m = m.resolve(adopted, "")
	m, actions := m.tryNext()
	return m, append([]Action{Keep{}}, actions...)
}
