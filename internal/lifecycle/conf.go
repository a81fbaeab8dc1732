package lifecycle

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Revision is the content of the sources at one time: a set, or why it cannot be
// used.
type Revision struct {
	Set *confset.Set
	Err error
	At  time.Time
	// Forced: it is tried though nothing has changed, or it was refused before.
	Forced bool
	// Request is the number of the command that waits for the result, 0 for none.
	Request int
	// staged is where the set lies ready, once it was checked, changes what it
	// changes.
	staged  string
	changes []string
	// InUse: it was refused because of jobs that need what it takes away, and is tried
	// again.
	InUse bool
}

// over puts a revision in the place of one that was not tried yet: whoever
// waited for that one learns what becomes of this. The same set, read once more, is put
// off as before.
func (e Revision) over(former *Revision) *Revision {
	if former != nil {
		e.Forced, e.Request = e.Forced || former.Forced, max(e.Request, former.Request)
		e.InUse = e.InUse || former.InUse && e.Set.Same(former.Set)
	}
	return &e
}

// configuration is that part of a life: what slurmctld runs with and what is
// to come of the revision after it.
type configuration struct {
	ConfActivity ConfActivity
	// Live is in place, good is the last that slurmctld and its nodes took.
	Live, Good *confset.Set
	// Next was not looked at yet, trying is, refused was found bad.
	Next, trying, Refused *Revision
	Why                   string // refused was
	// NotRestored is why good could not be put back.
	NotRestored string
	// put is the number of the present action, clock that of the armed timer.
	put, clock int
	// before is the main process when slurmctld was told to reconfigure; told: it
	// has said that it did.
	before int
	told   bool
	// noReply counts reconfigures in a row that had neither an answer nor a successor.
	noReply int
	// Unsettled: live was refused, or is not known to be good yet, and good is not back in
	// its place.
	Unsettled bool
	// anew: slurmctld was started with what a reconfigure does not change: good cannot be
	// put back while it runs.
	anew bool
	// attempts counts looks at the nodes, or failures to put good back.
	attempts int
	following
	Outcomes Outcomes
	// Resolved is the last request that has its result.
	Resolved int
	Result   string
}

// Outcomes counts revisions by what became of them.
type Outcomes struct {
	Taken, Refused, RolledBack int
	// ReadAt is when the last that was taken was read.
	ReadAt time.Time
}

// ConfNews is what a step makes known of the configuration: a reconfigure has silenced
// slurmctld's agent, which told the nodes' agents of it.
type ConfNews int

const (
	NoConfNews ConfNews = iota
	// ConfLive: slurmctld and its nodes have taken a set, be it the one that they had.
	ConfLive
	// ConfBack: the last good set is in its place again.
	ConfBack
)

// ConfNews compares with the state before the step.
func (l State) ConfNews(old State) ConfNews {
	switch same := l.Good.Same(old.Good); {
	case l.Good == nil || l.Unsettled:
		return NoConfNews
	case l.WasReady && (!same || !old.WasReady || l.Outcomes.Taken > old.Outcomes.Taken):
		return ConfLive
	case old.Unsettled && same:
		return ConfBack
	}
	return NoConfNews
}

const (
	// TakeLimit is how long slurmctld may take to reconfigure and answer: before it
	// begins, it waits for the answers of nodes that give none.
	TakeLimit = 2 * time.Minute
	// hangs is after how many reconfigures without an answer slurmctld will give none:
	// it takes no connections while it waits for its threads to end, without a limit.
	hangs = 3
	// InUsePause is how long an edit that jobs keep from being used waits for the next look at them.
	InUsePause = 20 * time.Second
)

// edited: the sources have another content.
func (l State) edited(e Revision) (State, []Action) {
	if !l.Reloads || l.IsOver() {
		return l, nil
	}
	l.Next = e.over(l.Next)
	switch {
	case l.Phase != Ready:
		return l, nil // when it is
	case l.ConfActivity == Spreading && l.mostTook():
		return l.adopt()
	case l.ConfActivity == ConfIdle, l.ConfActivity == BackingOff:
		return l.tryNext()
	}
	return l, nil
}

// IsOver: nothing is changed any more.
func (l State) IsOver() bool { return l.Phase == Stopping || l.Phase == Exited }

// tryNext takes up the last content of the sources, if it needs to be.
func (l State) tryNext() (State, []Action) {
	if l.Next == nil || l.Phase != Ready {
		return l, nil
	}
	e := l.Next
	switch {
	case e.Err == nil && !e.Forced && !l.Unsettled && e.Set.Same(l.Live):
		l.Next, l.Refused, l.Why = nil, nil, ""
		return l.resolve(e, ""), nil
	case l.knows(e):
		again := *e
		again.At, again.InUse = l.Refused.At, l.Refused.InUse // that it is refused is no news
		l.Next = nil
		return l.resolve(&again, l.Why).carryOn()
	case e.Err != nil:
		l.Next = nil
		return l.refuseUnseen(e, e.Err).carryOn()
	}
	l.Next, l.trying, l.ConfActivity = nil, e, Checking
	l.put++
	return l, []Action{Check{l.put, e.Set}}
}

// knows: it was refused before.
func (l State) knows(e *Revision) bool {
	switch {
	case l.Refused == nil:
		return false
	case e.Err != nil:
		return l.Why == e.Err.Error()
	}
	return !e.Forced && !e.InUse && e.Set.Same(l.Refused.Set)
}

// resolve says what became of a revision; empty: it is live.
func (l State) resolve(e *Revision, refusal string) State {
	if refusal != "" {
		l.Refused, l.Why = e, refusal
	}
	if e.Request > 0 {
		l.Resolved, l.Result = e.Request, refusal
	}
	return l
}

// refuseUnseen refuses what slurmctld has not had.
func (l State) refuseUnseen(e *Revision, why error) State {
	refused := *e
	refused.InUse = IsInUse(why)
	if again := e.InUse && refused.InUse && l.Refused != nil; !again {
		l.Outcomes.Refused++
	}
	return l.resolve(&refused, why.Error())
}

// carryOn: what was refused before it was live has changed nothing.
func (l State) carryOn() (State, []Action) {
	l.ConfActivity = ConfIdle
	switch {
	case l.Next != nil && l.Phase == Ready:
		return l.tryNext()
	case l.Unsettled:
		return l.restore()
	case l.Refused != nil && l.Refused.InUse:
		l, again := l.setClock(InUsePause)
		return l, []Action{again}
	}
	return l, nil
}

// tryAgain: the jobs that kept an edit from being used may be over.
func (l State) tryAgain() (State, []Action) {
	if l.Refused == nil || !l.Refused.InUse || l.Next != nil {
		return l, nil
	}
	again := *l.Refused
	again.Forced, again.Request = false, 0
	return l.edited(again)
}

// looked: the set that is tried was checked, and lies ready.
func (l State) looked(e Checked) (State, []Action) {
	if e.Number != l.put || l.ConfActivity != Checking || l.IsOver() {
		return l, nil
	}
	trying := l.trying
	switch {
	case l.Activity == ChoosingConf:
		return l.lookedFirst(e)
	case e.Err != nil:
		l.trying = nil
		return l.refuseUnseen(trying, e.Err).carryOn()
	case l.Next != nil:
		l.Next, l.trying = l.Next.over(trying), nil
		return l.carryOn()
	}
	tried := *trying
	tried.staged, tried.changes = e.Staged, e.Changes
	l.trying, l.ConfActivity = &tried, AwaitingLaunches
	l.put++
	return l, []Action{AwaitLaunches{l.put, l.patience(tried.Set)}}
}

// patience is how long launches may keep a set from slurmctld.
func (l State) patience(set *confset.Set) time.Duration {
	if l.Live != nil && set.KeyHash != l.Live.KeyHash {
		return keySendLimit
	}
	return SendLimit
}

// launched: a reconfigure loses no launch any more, or cannot wait longer.
func (l State) launched(e LaunchesOver) (State, []Action) {
	if e.Number != l.put || l.ConfActivity != AwaitingLaunches || l.IsOver() {
		return l, nil
	}
	switch trying := l.trying; {
	case l.Next != nil:
		l.Next, l.trying = l.Next.over(trying), nil
		return l.carryOn()
	case e.Err != nil:
		l.trying = nil
		return l.refuseUnseen(trying, e.Err).carryOn()
	}
	return l.replaceLive(Reconfiguring, l.trying.Set, l.trying.staged)
}

// replaceLive puts a set in the place of the live one and has slurmctld take it.
func (l State) replaceLive(why ConfActivity, set *confset.Set, staged string) (State, []Action) {
	l.ConfActivity, l.Live, l.before, l.told = why, set, l.Main, false
	l.put++
	l.noReply++
	l, limit := l.setClock(TakeLimit)
	return l, []Action{Reconfigure{l.put, set, staged}, limit}
}

func (l State) setClock(d time.Duration) (State, Action) {
	l.clock++
	return l, ArmReload{l.clock, d}
}

// reconfigured: slurmctld has answered, or not. Without an answer its successor
// may come up all the same.
func (l State) reconfigured(e ReconfigureEnded) (State, []Action) {
	if e.Number != l.put || l.IsOver() || l.ConfActivity != Reconfiguring && l.ConfActivity != Restoring {
		return l, nil
	}
	if !errors.Is(e.Err, slurm.ErrUnreachable) {
		l.noReply = 0
	}
	switch {
	case l.Main == l.before && l.Phase == Ready && errors.As(e.Err, &HeldUp{}):
		return l.endHung("slurmctld hangs: " + e.Err.Error())
	case e.Err == nil, errors.Is(e.Err, slurm.ErrUnreachable):
		l.told = true
		return l.taken()
	case l.ConfActivity == Restoring:
		return l.backOff(e.Err.Error())
	}
	return l.refuse(e.Err.Error())
}

// reconfigureAgain: slurmctld is silent, which is no refusal.
func (l State) reconfigureAgain() (State, []Action) {
	if l.noReply >= hangs {
		return l.endHung(l.hanging())
	}
	return l.replaceLive(Reconfiguring, l.trying.Set, "")
}

// taken is asked when slurmctld has answered, and when it is Ready again: only
// with both, and with another main process, has it taken the set.
func (l State) taken() (State, []Action) {
	if !l.told || l.Phase != Ready || l.Main == l.before {
		return l, nil
	}
	if l.ConfActivity == Restoring {
		l.Unsettled, l.NotRestored, l.attempts, l.following = false, "", 0, following{}
		l.clock++
		return l.carryOn()
	}
	return l.spreadOut()
}

// refuse: the set that is in place is not good. Its files may be on the nodes
// already (since 25.11 also when slurmctld has refused them), so the last good
// one is not only put back, but pushed. Daemons seldom tell the line that they do
// not like, so those that were changed are named.
func (l State) refuse(why string) (State, []Action) {
	refused := l.trying
	l.trying = nil
	l.Outcomes.RolledBack++
	l = l.resolve(refused, strings.Join(append([]string{why}, refused.changes...), "\n"))
	l.Unsettled, l.attempts = true, 0
	return l.restore()
}

func (l State) restore() (State, []Action) {
	if l.noReply >= hangs {
		return l.endHung(l.hanging())
	}
	return l.replaceLive(Restoring, l.Good, "")
}

// endHung ends a slurmctld that answers no more, and the container with it:
// the next one starts with its state. Jobs run on meanwhile.
func (l State) endHung(why string) (State, []Action) {
	l.ConfActivity = Restoring
	l.put++
	l.clock++ // nothing that is under way matters any more
	return l.replace(why)
}

func (l State) hanging() string {
	return fmt.Sprintf("slurmctld hangs: %d reconfigures in a row had no answer within %v", l.noReply, TakeLimit)
}

// backOff waits until the last good set is tried again; a revision that comes
// first may mend all.
func (l State) backOff(why string) (State, []Action) {
	l.ConfActivity, l.NotRestored = BackingOff, why
	l.attempts++
	l, again := l.setClock(backoff.Grow(time.Second, l.attempts-1, backoff.LastPause))
	l, actions := l.tryNext()
	return l, append(actions, again)
}

// ReloadTimerFired: the time for the present part of a reload is over.
func (l State) reloadDue(e ReloadTimerFired) (State, []Action) {
	if e.Number != l.clock || l.IsOver() {
		return l, nil
	}
	switch l.ConfActivity {
	case ConfIdle:
		return l.tryAgain()
	case Reconfiguring:
		return l.reconfigureAgain()
	case Restoring:
		return l.backOff("slurmctld does not take the last good configuration")
	case BackingOff:
		return l.restore()
	case Spreading, RestartingOne:
		return l.spreadDue()
	}
	return l, nil
}

// InUse is why a set cannot be used as long as there are jobs that need what it takes
// away, or nobody can tell whether there are.
type InUse struct{ Why string }

func (e InUse) Error() string { return e.Why }

func IsInUse(err error) bool { return errors.As(err, &InUse{}) }

// HeldUp is why slurmctld does not answer a reconfigure, and never will: before 25.05 it waits without a limit for
// connections on which nobody says anything.
type HeldUp struct{ Why string }

func (e HeldUp) Error() string { return e.Why }

func (e HeldUp) Unwrap() error { return slurm.ErrUnreachable }

// SendLimit is how long a reconfigure waits. A slurmd that reconfigures itself
// answers afterwards, five seconds later where DNS does not answer it; one that is
// dead, not at all, and what is for it stays in the queue.
const SendLimit = 10 * time.Second

// keySendLimit is the same for new keys, which come to all daemons of a cluster at
// once: slurmd answers late, launches pile up, and are told in bursts until they have
// become few again. Nobody waits for keys; both kinds are accepted meanwhile.
const keySendLimit = 40 * time.Second
