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
func (c machine) spreadOut() (machine, []Action) {
	c.Activity, c.attempts, c.following = Spreading, 0, following{}
	c, limit := c.setClock(spreadLimit)
	c, look := c.lookAtNodes(0)
	return c, []Action{look, limit}
}

// lookAtNodes asks after a while which nodes have taken the set, and has some restarted
// into it.
func (c machine) lookAtNodes(cost time.Duration) (machine, Action) {
	last := backoff.LastTry
	if c.waits > 0 {
		last = backoff.LastPause
	}
	c.Question++
	return c, AskNodes{c.Question, max(backoff.Grow(FirstLook, c.attempts, last), min(lookCost*cost, lookRest)), c.toRestart()}
}

// toRestart are the nodes that have answered and not followed, once the set is known to be
// one that slurmd takes: a slurmd that cannot reconfigure from what it runs with takes it as
// it starts. Jobs and their steps live on.
func (c machine) toRestart() []string {
	switch {
	case c.Activity == RestartingOne:
		return []string{c.Canary}
	case c.RestartAll, c.Took > len(c.Missed) && c.attempts >= surelyMissed:
		return c.Missed
	}
	return nil
}

// nodesCounted: so many nodes have taken the new set.
func (c machine) nodesCounted(e NodesAsked) (machine, []Action) {
	if e.Number != c.Question || c.Activity != Spreading && c.Activity != RestartingOne {
		return c, nil
	}
	c = c.takeAnswer(e)
	switch {
	case e.Err != nil:
	case len(e.Missed)+len(e.Unheard) == 0, c.Next != nil && c.mostTook():
		return c.adopt()
	case c.Activity == RestartingOne && e.Canary:
		return c.restartAll()
	case c.Activity == Spreading && e.Took == 0 && len(e.Unheard) == 0 && c.attempts >= surelyMissed:
		return c.doubtRefusal()
	}
	c.attempts++
	c, look := c.lookAtNodes(e.Cost)
	return c, []Action{look}
}

func (c machine) takeAnswer(e NodesAsked) machine {
	if e.Err != nil {
		c.unanswered = e.Err.Error()
		if !errors.Is(e.Err, slurm.ErrUnreachable) {
			c.silences = 0
		}
		return c
	}
	c.grew = c.grew || e.Took+len(e.Missed) > c.Took+len(c.Missed)
	c.Took, c.Missed, c.Unheard = e.Took, e.Missed, e.Unheard
	c.counted, c.silences, c.unanswered = true, 0, ""
	return c
}

// mostTook: a few nodes that are silent keep nobody from the next edit, nor
// from this one.
func (c machine) mostTook() bool { return c.Took > len(c.Missed)+len(c.Unheard) }

// notTaken: slurmd says why in its own log, which the agent cannot see from here.
func (c machine) notTaken() string {
	node := c.Canary // slurmctld may have heard of no node since
	if len(c.Missed) > 0 {
		node = c.Missed[0]
	}
	return fmt.Sprintf("%d of %d nodes do not take it; the log of %s says why", len(c.Missed), c.Took+len(c.Missed)+len(c.Unheard), node)
}

// spreadDue: the nodes have had their time. No answer is neither yes nor no: only
// nodes that have answered and not followed refuse a set, and only those that have
// followed make it good.
func (c machine) spreadDue() (machine, []Action) {
	switch {
	case c.mostTook():
		return c.adopt()
	case !c.counted:
		return c.noAnswer()
	case c.Activity == RestartingOne:
		return c.refuse(c.notTaken())
	case c.grew && c.waits < mostWaits:
		return c.waitOn()
	case c.Took > len(c.Missed):
		return c.adopt() // of the others nothing is known
	case len(c.Missed) > 0:
		return c.doubtRefusal()
	}
	return c.noAnswer()
}

// noAnswer: slurmctld, or every node, is silent. The next edit does not wait for them.
func (c machine) noAnswer() (machine, []Action) {
	if !c.counted {
		c.silences++
	}
	switch {
	case time.Duration(c.silences)*spreadLimit >= hangsAfter*TakeLimit:
		return c.endHung(fmt.Sprintf("slurmctld hangs: it has not said for %v which nodes have its configuration", hangsAfter*TakeLimit))
	case c.Next != nil && c.Ready:
		return c.supersede()
	}
	return c.waitOn()
}

func (c machine) waitOn() (machine, []Action) {
	c.waits++
	if c.waits == mostWaits && c.Trying.Request > 0 {
		c.Resolved, c.Result = c.Trying.Request, "not known: "+c.Awaits()
	}
	c.counted, c.grew = false, false
	c, limit := c.setClock(spreadLimit)
	return c, []Action{limit}
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
func (c machine) supersede() (machine, []Action) {
	if c.Next.Err == nil && c.Next.Set.Same(c.Trying.Set) {
		c.Trying, c.Next = c.Next.over(c.Trying), nil
		return c.waitOn()
	}
	c.Next, c.Trying, c.Unsettled = c.Next.over(c.Trying), nil, true
	return c.carryOn()
}

// doubtRefusal: most nodes that have answered go on with the slurmd that they had. It may
// be that slurmd cannot reconfigure from what it runs with, or that no push has come: one is
// restarted into the set, and says so.
func (c machine) doubtRefusal() (machine, []Action) {
	if c.RestartAll {
		return c.refuse(c.notTaken())
	}
	c.Activity, c.Canary, c.attempts, c.counted = RestartingOne, c.Missed[0], 0, false
	c, limit := c.setClock(RestartLimit)
	c, look := c.lookAtNodes(0)
	return c, []Action{look, limit}
}

// restartAll: a slurmd that starts with the set comes up.
func (c machine) restartAll() (machine, []Action) {
	c.Activity, c.RestartAll, c.attempts, c.counted, c.grew = Spreading, true, 0, true, true
	c.Missed = slices.DeleteFunc(slices.Clone(c.Missed), func(name string) bool { return name == c.Canary })
	c, limit := c.setClock(spreadLimit)
	c, look := c.lookAtNodes(0)
	return c, []Action{look, limit}
}

// adopt makes the live set the last good one.
func (c machine) adopt() (machine, []Action) {
	adopted := c.Trying
	c.Good, c.Trying, c.Refused, c.Why = c.Live, nil, nil, ""
	c.Activity, c.Unsettled, c.NotRestored = Idle, false, ""
	c.Outcomes.Taken++
	c.Outcomes.ReadAt = adopted.At
	c.Timer++
	c.Question++
	c = c.resolve(adopted, "")
	c, actions := c.tryNext()
	return c, append([]Action{Keep{c.Good}}, actions...)
}
