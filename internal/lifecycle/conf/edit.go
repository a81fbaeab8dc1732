package conf

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

const (
	// TakeLimit is how long slurmctld may take to reconfigure and answer: before it
	// begins, it waits for the answers of nodes that give none.
	TakeLimit = 2 * time.Minute
	// hangsAfter is after how many reconfigures without an answer slurmctld will give none:
	// it takes no connections while it waits for its threads to end, without a limit.
	hangsAfter = 3
	// InUsePause is how long an edit that jobs keep from being used waits for the next look at them.
	InUsePause = 20 * time.Second
)

// edited: the sources have another content.
func (c machine) edited(e Revision) (machine, []Action) {
	c.Next = e.over(c.Next)
	switch {
	case !c.Ready:
		return c, nil // when it is
	case c.Activity == Spreading && c.mostTook():
		return c.adopt()
	case c.Activity == Idle, c.Activity == BackingOff:
		return c.tryNext()
	}
	return c, nil
}

// tryNext takes up the last content of the sources, if it needs to be.
func (c machine) tryNext() (machine, []Action) {
	if c.Next == nil || !c.Ready {
		return c, nil
	}
	e := c.Next
	switch {
	case e.Err == nil && !e.Forced && !c.Unsettled && e.Set.Same(c.Live):
		c.Next, c.Refused, c.Why = nil, nil, ""
		return c.resolve(e, ""), nil
	case c.wasRefused(e):
		again := *e
		again.At, again.InUse = c.Refused.At, c.Refused.InUse // that it is refused is no news
		c.Next = nil
		return c.resolve(&again, c.Why).carryOn()
	case e.Err != nil:
		c.Next = nil
		return c.refuseUnseen(e, e.Err).carryOn()
	}
	c.Next, c.Trying, c.Activity = nil, e, Checking
	c.Question++
	return c, []Action{Check{c.Question, e.Set}}
}

// wasRefused: it was refused before.
func (c machine) wasRefused(e *Revision) bool {
	switch {
	case c.Refused == nil:
		return false
	case e.Err != nil:
		return c.Why == e.Err.Error()
	}
	return !e.Forced && !e.InUse && e.Set.Same(c.Refused.Set)
}

// resolve says what became of a revision; empty: it is live.
func (c machine) resolve(e *Revision, refusal string) machine {
	if refusal != "" {
		c.Refused, c.Why = e, refusal
	}
	if e.Request > 0 {
		c.Resolved, c.Result = e.Request, refusal
	}
	return c
}

// refuseUnseen refuses what slurmctld has not had.
func (c machine) refuseUnseen(e *Revision, why error) machine {
	refused := *e
	refused.InUse = IsInUse(why)
	if again := e.InUse && refused.InUse && c.Refused != nil; !again {
		c.Outcomes.Refused++
	}
	return c.resolve(&refused, why.Error())
}

// carryOn: what was refused before it was live has changed nothing.
func (c machine) carryOn() (machine, []Action) {
	c.Activity = Idle
	switch {
	case c.Next != nil && c.Ready:
		return c.tryNext()
	case c.Unsettled:
		return c.restore()
	case c.Refused != nil && c.Refused.InUse:
		c, again := c.setClock(InUsePause)
		return c, []Action{again}
	}
	return c, nil
}

// tryAgain: the jobs that kept an edit from being used may be over.
func (c machine) tryAgain() (machine, []Action) {
	if c.Refused == nil || !c.Refused.InUse || c.Next != nil {
		return c, nil
	}
	again := *c.Refused
	again.Forced, again.Request = false, 0
	return c.edited(again)
}

// takeChecked: the set that is tried was checked, and lies ready.
func (c machine) takeChecked(e Checked) (machine, []Action) {
	if e.Number != c.Question || c.Activity != Checking {
		return c, nil
	}
	trying := c.Trying
	switch {
	case c.choosing:
		return c.checkedFirst(e)
	case e.Err != nil:
		c.Trying = nil
		return c.refuseUnseen(trying, e.Err).carryOn()
	case c.Next != nil:
		c.Next, c.Trying = c.Next.over(trying), nil
		return c.carryOn()
	}
	tried := *trying
	tried.staged, tried.changes = e.Staged, e.Changes
	c.Trying, c.Activity = &tried, AwaitingLaunches
	c.Question++
	return c, []Action{AwaitLaunches{c.Question, c.launchLimit(tried.Set)}}
}

// launchLimit is how long launches may keep a set from slurmctld.
func (c machine) launchLimit(set *confset.Set) time.Duration {
	if c.Live != nil && set.KeyHash != c.Live.KeyHash {
		return keySendLimit
	}
	return SendLimit
}

// launched: a reconfigure loses no launch any more, or cannot wait longer.
func (c machine) launched(e LaunchesOver) (machine, []Action) {
	if e.Number != c.Question || c.Activity != AwaitingLaunches {
		return c, nil
	}
	switch trying := c.Trying; {
	case c.Next != nil:
		c.Next, c.Trying = c.Next.over(trying), nil
		return c.carryOn()
	case e.Err != nil:
		c.Trying = nil
		return c.refuseUnseen(trying, e.Err).carryOn()
	}
	return c.replaceLive(Reconfiguring, c.Trying.Set, c.Trying.staged)
}

// replaceLive puts a set in the place of the live one and has slurmctld take it.
func (c machine) replaceLive(why Activity, set *confset.Set, staged string) (machine, []Action) {
	c.Activity, c.Live, c.before, c.answered = why, set, c.PID, false
	c.Question++
	c.noReply++
	c, limit := c.setClock(TakeLimit)
	return c, []Action{Reconfigure{c.Question, set, staged}, limit}
}

func (c machine) setClock(d time.Duration) (machine, Action) {
	c.Timer++
	return c, ArmReload{c.Timer, d}
}

// reconfigured: slurmctld has answered, or not. Without an answer its successor
// may come up all the same.
func (c machine) reconfigured(e ReconfigureEnded) (machine, []Action) {
	if e.Number != c.Question || c.Activity != Reconfiguring && c.Activity != Restoring {
		return c, nil
	}
	if !errors.Is(e.Err, slurm.ErrUnreachable) {
		c.noReply = 0
	}
	switch {
	case c.PID == c.before && c.Ready && errors.As(e.Err, &HeldUp{}):
		return c.endHung("slurmctld hangs: " + e.Err.Error())
	case e.Err == nil, errors.Is(e.Err, slurm.ErrUnreachable):
		c.answered = true
		return c.taken()
	case c.Activity == Restoring:
		return c.backOff(e.Err.Error())
	}
	return c.refuse(e.Err.Error())
}

// reconfigureAgain: slurmctld is silent, which is no refusal.
func (c machine) reconfigureAgain() (machine, []Action) {
	if c.noReply >= hangsAfter {
		return c.endHung(c.whyHung())
	}
	return c.replaceLive(Reconfiguring, c.Trying.Set, "")
}

// taken is asked when slurmctld has answered, and when it is Ready again: only
// with both, and with another main process, has it taken the set.
func (c machine) taken() (machine, []Action) {
	if !c.answered || !c.Ready || c.PID == c.before {
		return c, nil
	}
	if c.Activity == Restoring {
		c.Unsettled, c.NotRestored, c.attempts, c.following = false, "", 0, following{}
		c.Timer++
		return c.carryOn()
	}
	return c.spreadOut()
}

// refuse: the set that is in place is not good. Its files may be on the nodes
// already (since 25.11 also when slurmctld has refused them), so the last good
// one is not only put back, but pushed. Daemons seldom name the line that they do
// not like, so those that were changed are named.
func (c machine) refuse(why string) (machine, []Action) {
	refused := c.Trying
	c.Trying = nil
	c.Outcomes.RolledBack++
	c = c.resolve(refused, strings.Join(append([]string{why}, refused.changes...), "\n"))
	c.Unsettled, c.attempts = true, 0
	return c.restore()
}

func (c machine) restore() (machine, []Action) {
	if c.noReply >= hangsAfter {
		return c.endHung(c.whyHung())
	}
	return c.replaceLive(Restoring, c.Good, "")
}

// endHung ends a slurmctld that answers no more, and the container with it:
// the next one starts with its state. Jobs run on meanwhile.
func (c machine) endHung(why string) (machine, []Action) {
	c.Activity = Restoring
	c.Question++
	c.Timer++ // nothing that is under way matters any more
	return c, []Action{End{why}}
}

func (c machine) whyHung() string {
	return fmt.Sprintf("slurmctld hangs: %d reconfigures in a row had no answer within %v", c.noReply, TakeLimit)
}

// backOff waits until the last good set is tried again; a revision that comes
// first may mend all.
func (c machine) backOff(why string) (machine, []Action) {
	c.Activity, c.NotRestored = BackingOff, why
	c.attempts++
	c, again := c.setClock(backoff.Grow(time.Second, c.attempts-1, backoff.LastPause))
	c, actions := c.tryNext()
	return c, append(actions, again)
}

// ReloadTimerFired: the time for the present part of a reload is over.
func (c machine) reloadDue(e ReloadTimerFired) (machine, []Action) {
	if e.Number != c.Timer {
		return c, nil
	}
	switch c.Activity {
	case Idle:
		return c.tryAgain()
	case Reconfiguring:
		return c.reconfigureAgain()
	case Restoring:
		return c.backOff("slurmctld does not take the last good configuration")
	case BackingOff:
		return c.restore()
	case Spreading, RestartingOne:
		return c.spreadDue()
	}
	return c, nil
}

// SendLimit is how long a reconfigure waits. A slurmd that reconfigures itself
// answers afterwards, five seconds later where DNS does not answer it; one that is
// dead, not at all, and what is for it stays in the queue.
const SendLimit = 10 * time.Second

// keySendLimit is the same for new keys, which come to all daemons of a cluster at
// once: slurmd answers late, launches pile up, and are logged in bursts until they have
// become few again. Nobody waits for keys; both kinds are accepted meanwhile.
const keySendLimit = 40 * time.Second
