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
func (m machine) edited(e Revision) (machine, []Action) {
	m.Next = e.over(m.Next)
	switch {
	case !m.Ready:
		return m, nil // when it is
	case m.Activity == Spreading && m.mostTook():
		return m.adopt()
	case m.Activity == Idle, m.Activity == BackingOff:
		return m.tryNext()
	}
	return m, nil
}

// tryNext takes up the last content of the sources, if it needs to be.
func (m machine) tryNext() (machine, []Action) {
	if m.Next == nil || !m.Ready {
		return m, nil
	}
	e := m.Next
	switch {
	case e.Err == nil && !e.Forced && !m.Unsettled && e.Set.Same(m.Live):
		m.Next, m.Refused, m.Why = nil, nil, ""
		return m.resolve(e, ""), nil
	case m.wasRefused(e):
		again := *e
		again.At, again.InUse = m.Refused.At, m.Refused.InUse // that it is refused is no news
		m.Next = nil
		return m.resolve(&again, m.Why).carryOn()
	case e.Err != nil:
		m.Next = nil
		return m.refuseUnseen(e, e.Err).carryOn()
	}
	m.Next, m.Trying, m.Activity = nil, e, Checking
	m.Question++
	return m, []Action{Check{m.Question, e.Set}}
}

// wasRefused: it was refused before.
func (m machine) wasRefused(e *Revision) bool {
	switch {
	case m.Refused == nil:
		return false
	case e.Err != nil:
		return m.Why == e.Err.Error()
	}
	return !e.Forced && !e.InUse && e.Set.Same(m.Refused.Set)
}

// resolve says what became of a revision; empty: it is live.
func (m machine) resolve(e *Revision, refusal string) machine {
	if refusal != "" {
		m.Refused, m.Why = e, refusal
	}
	if e.Request > 0 {
		m.Resolved, m.Result = e.Request, refusal
	}
	return m
}

// refuseUnseen refuses what slurmctld has not had.
func (m machine) refuseUnseen(e *Revision, why error) machine {
	refused := *e
	refused.InUse = IsInUse(why)
	if again := e.InUse && refused.InUse && m.Refused != nil; !again {
		m.Outcomes.Refused++
	}
	return m.resolve(&refused, why.Error())
}

// carryOn: what was refused before it was live has changed nothing.
func (m machine) carryOn() (machine, []Action) {
	m.Activity = Idle
	switch {
	case m.Next != nil && m.Ready:
		return m.tryNext()
	case m.Unsettled:
		return m.restore()
	case m.Refused != nil && m.Refused.InUse:
		m, again := m.setClock(InUsePause)
		return m, []Action{again}
	}
	return m, nil
}

// tryAgain: the jobs that kept an edit from being used may be over.
func (m machine) tryAgain() (machine, []Action) {
	if m.Refused == nil || !m.Refused.InUse || m.Next != nil {
		return m, nil
	}
	again := *m.Refused
	again.Forced, again.Request = false, 0
	return m.edited(again)
}

// takeChecked: the set that is tried was checked, and lies ready.
func (m machine) takeChecked(e Checked) (machine, []Action) {
	if e.Number != m.Question || m.Activity != Checking {
		return m, nil
	}
	trying := m.Trying
	switch {
	case m.choosing:
		return m.checkedFirst(e)
	case e.Err != nil:
		m.Trying = nil
		return m.refuseUnseen(trying, e.Err).carryOn()
	case m.Next != nil:
		m.Next, m.Trying = m.Next.over(trying), nil
		return m.carryOn()
	}
	tried := *trying
	tried.staged, tried.changes = e.Staged, e.Changes
	m.Trying, m.Activity = &tried, AwaitingLaunches
	m.Question++
	return m, []Action{AwaitLaunches{m.Question, m.launchLimit(tried.Set)}}
}

// launchLimit is how long launches may keep a set from slurmctld.
func (m machine) launchLimit(set *confset.Set) time.Duration {
	if m.Live != nil && set.KeyHash != m.Live.KeyHash {
		return keySendLimit
	}
	return SendLimit
}

// launched: a reconfigure loses no launch any more, or cannot wait longer.
func (m machine) launched(e LaunchesOver) (machine, []Action) {
	if e.Number != m.Question || m.Activity != AwaitingLaunches {
		return m, nil
	}
	switch trying := m.Trying; {
	case m.Next != nil:
		m.Next, m.Trying = m.Next.over(trying), nil
		return m.carryOn()
	case e.Err != nil:
		m.Trying = nil
		return m.refuseUnseen(trying, e.Err).carryOn()
	}
	return m.replaceLive(Reconfiguring, m.Trying.Set, m.Trying.staged)
}

// replaceLive puts a set in the place of the live one and has slurmctld take it.
func (m machine) replaceLive(why Activity, set *confset.Set, staged string) (machine, []Action) {
	m.Activity, m.Live, m.pidBefore, m.answered = why, set, m.PID, false
	m.Question++
	m.noReply++
	m, limit := m.setClock(TakeLimit)
	return m, []Action{Reconfigure{m.Question, set, staged}, limit}
}

func (m machine) setClock(d time.Duration) (machine, Action) {
	m.Timer++
	return m, ArmReload{m.Timer, d}
}

// reconfigured: slurmctld has answered, or not. Without an answer its successor
// may come up all the same.
func (m machine) reconfigured(e ReconfigureEnded) (machine, []Action) {
	if e.Number != m.Question || m.Activity != Reconfiguring && m.Activity != Restoring {
		return m, nil
	}
	if !errors.Is(e.Err, slurm.ErrUnreachable) {
		m.noReply = 0
	}
	switch {
	case m.PID == m.pidBefore && m.Ready && errors.As(e.Err, &HeldUp{}):
		return m.endHung("slurmctld hangs: " + e.Err.Error())
	case e.Err == nil, errors.Is(e.Err, slurm.ErrUnreachable):
		m.answered = true
		return m.taken()
	case m.Activity == Restoring:
		return m.backOff(e.Err.Error())
	}
	return m.refuse(e.Err.Error())
}

// reconfigureAgain: slurmctld is silent, which is no refusal.
func (m machine) reconfigureAgain() (machine, []Action) {
	if m.noReply >= hangsAfter {
		return m.endHung(m.whyHung())
	}
	return m.replaceLive(Reconfiguring, m.Trying.Set, "")
}

// taken is asked when slurmctld has answered, and when it is Ready again: only
// with both, and with another main process, has it taken the set.
func (m machine) taken() (machine, []Action) {
	if !m.answered || !m.Ready || m.PID == m.pidBefore {
		return m, nil
	}
	if m.Activity == Restoring {
		m.Unsettled, m.NotRestored, m.attempts, m.following = false, "", 0, following{}
		m.Timer++
		return m.carryOn()
	}
	return m.spreadOut()
}

// refuse: the set that is in place is not good. Its files may be on the nodes
// already (since 25.11 also when slurmctld has refused them), so the last good
// one is not only put back, but pushed. Daemons seldom name the line that they do
// not like, so those that were changed are named.
func (m machine) refuse(why string) (machine, []Action) {
	refused := m.Trying
	m.Trying = nil
	m.Outcomes.RolledBack++
	m = m.resolve(refused, strings.Join(append([]string{why}, refused.changes...), "\n"))
	m.Unsettled, m.attempts = true, 0
	return m.restore()
}

func (m machine) restore() (machine, []Action) {
	if m.noReply >= hangsAfter {
		return m.endHung(m.whyHung())
	}
	return m.replaceLive(Restoring, m.Good, "")
}

// endHung ends a slurmctld that answers no more, and the container with it:
// the next one starts with its state. Jobs run on meanwhile.
func (m machine) endHung(why string) (machine, []Action) {
	m.Activity = Restoring
	m.Question++
	m.Timer++ // nothing that is under way matters any more
	return m, []Action{End{why}}
}

func (m machine) whyHung() string {
	return fmt.Sprintf("slurmctld hangs: %d reconfigures in a row had no answer within %v", m.noReply, TakeLimit)
}

// backOff waits until the last good set is tried again; a revision that comes
// first may mend all.
func (m machine) backOff(why string) (machine, []Action) {
	m.Activity, m.NotRestored = BackingOff, why
	m.attempts++
	m, again := m.setClock(backoff.Grow(time.Second, m.attempts-1, backoff.LastPause))
	m, actions := m.tryNext()
	return m, append(actions, again)
}

// reloadDue goes on when the time for the present part of a reload is over.
func (m machine) reloadDue(e ReloadTimerFired) (machine, []Action) {
	if e.Number != m.Timer {
		return m, nil
	}
	switch m.Activity {
	case Idle:
		return m.tryAgain()
	case Reconfiguring:
		return m.reconfigureAgain()
	case Restoring:
		return m.backOff("slurmctld does not take the last good configuration")
	case BackingOff:
		return m.restore()
	case Spreading, RestartingOne:
		return m.spreadDue()
	}
	return m, nil
}

// SendLimit is how long a reconfigure waits. A slurmd that reconfigures itself
// answers afterwards, five seconds later where DNS does not answer it; one that is
// dead, not at all, and what is for it stays in the queue.
const SendLimit = 10 * time.Second

// keySendLimit is the same for new keys, which come to all daemons of a cluster at
// once: slurmd answers late, launches pile up, and are logged in bursts until they have
// become few again. Nobody waits for keys; both kinds are accepted meanwhile.
const keySendLimit = 40 * time.Second
