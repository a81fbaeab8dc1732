package agent

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// reloading is what a slurmctld does about its configuration besides.
type reloading string

const (
	quiet         reloading = ""
	checking      reloading = "checking the new configuration"
	sending       reloading = "waiting for slurmctld to launch the jobs that it has started"
	reconfiguring reloading = "waiting for slurmctld to take the new configuration"
	spreading     reloading = "waiting for the nodes to take the new configuration"
	restarting    reloading = "having slurmd restarted into the new configuration on one node"
	restoring     reloading = "putting the last good configuration back"
	brooding      reloading = "pausing before the last good configuration is put back once more"
)

// edition is the content of the sources at one time: a set, or why it cannot be
// used.
type edition struct {
	set *confset.Set
	err error
	at  time.Time
	// forced: it is tried though nothing has changed, or it was refused before.
	forced bool
	// ticket is the number of the command that waits for the verdict, 0 for none.
	ticket int
	// staged is where the set lies ready, once it was checked, changes what it
	// changes.
	staged  string
	changes []string
	// inUse: it was refused because of jobs that need what it takes away, and is tried
	// again.
	inUse bool
}

// over puts an edition in the place of one that was not tried yet: whoever
// waited for that one learns what becomes of this. The same set, read once more, is put
// off as before.
func (e edition) over(former *edition) *edition {
	if former != nil {
		e.forced, e.ticket = e.forced || former.forced, max(e.ticket, former.ticket)
		e.inUse = e.inUse || former.inUse && e.set.Same(former.set)
	}
	return &e
}

// configuration is that part of a life: what slurmctld runs with and what is
// to come of the edition after it.
type configuration struct {
	reloading reloading
	// live is in place, good is the last that slurmctld and its nodes took.
	live, good *confset.Set
	// next was not looked at yet, trying is, refused was found bad.
	next, trying, refused *edition
	why                   string // refused was
	// brooded is why good could not be put back.
	brooded string
	// put is the number of the present action, clock that of the armed timer.
	put, clock int
	// before is the main process when slurmctld was told to reconfigure; told: it
	// has said that it did.
	before int
	told   bool
	// silent counts reconfigures in a row that had neither an answer nor a successor.
	silent int
	// unsettled: live was refused, or is not known to be good yet, and good is not back in
	// its place.
	unsettled bool
	// anew: slurmctld was started with what a reconfigure does not change: good cannot be
	// put back while it runs.
	anew bool
	// attempts counts looks at the nodes, or failures to put good back.
	attempts int
	following
	outcomes outcomes
	// judged is the last ticket that has its verdict.
	judged  int
	verdict string
}

// outcomes counts editions by what became of them.
type outcomes struct {
	taken, refused, rolledBack int
	// edited is when the last that was taken was read.
	edited time.Time
}

const (
	// takeLimit is how long slurmctld may take to reconfigure and answer: before it
	// begins, it waits for the answers of nodes that give none.
	takeLimit = 2 * time.Minute
	// hangs is after how many reconfigures without an answer slurmctld will give none:
	// it takes no connections while it waits for its threads to end, without a limit.
	hangs = 3
	// inUsePause is how long an edit that jobs keep from being used waits for the next look at them.
	inUsePause = 20 * time.Second
)

// edited: the sources have another content.
func (l life) edited(e edition) (life, []action) {
	if !l.reloads || l.isOver() {
		return l, nil
	}
	l.next = e.over(l.next)
	switch {
	case l.state != Ready:
		return l, nil // when it is
	case l.reloading == spreading && l.mostTook():
		return l.adopt()
	case l.reloading == quiet, l.reloading == brooding:
		return l.tryNext()
	}
	return l, nil
}

// isOver: nothing is changed any more.
func (l life) isOver() bool { return l.state == Stopping || l.state == Exited }

// tryNext takes up the last content of the sources, if it needs to be.
func (l life) tryNext() (life, []action) {
	if l.next == nil || l.state != Ready {
		return l, nil
	}
	e := l.next
	switch {
	case e.err == nil && !e.forced && !l.unsettled && e.set.Same(l.live):
		l.next, l.refused, l.why = nil, nil, ""
		return l.judge(e, ""), nil
	case l.knows(e):
		again := *e
		again.at, again.inUse = l.refused.at, l.refused.inUse // that it is refused is no news
		l.next = nil
		return l.judge(&again, l.why).carryOn()
	case e.err != nil:
		l.next = nil
		return l.refuseUnseen(e, e.err).carryOn()
	}
	l.next, l.trying, l.reloading = nil, e, checking
	l.put++
	return l, []action{check{l.put, e.set}}
}

// knows: it was refused before.
func (l life) knows(e *edition) bool {
	switch {
	case l.refused == nil:
		return false
	case e.err != nil:
		return l.why == e.err.Error()
	}
	return !e.forced && !e.inUse && e.set.Same(l.refused.set)
}

// judge says what became of an edition; empty: it is live.
func (l life) judge(e *edition, refusal string) life {
	if refusal != "" {
		l.refused, l.why = e, refusal
	}
	if e.ticket > 0 {
		l.judged, l.verdict = e.ticket, refusal
	}
	return l
}

// refuseUnseen refuses what slurmctld has not had.
func (l life) refuseUnseen(e *edition, why error) life {
	refused := *e
	refused.inUse = isInUse(why)
	if again := e.inUse && refused.inUse && l.refused != nil; !again {
		l.outcomes.refused++
	}
	return l.judge(&refused, why.Error())
}

// carryOn: what was refused before it was live has changed nothing.
func (l life) carryOn() (life, []action) {
	l.reloading = quiet
	switch {
	case l.next != nil && l.state == Ready:
		return l.tryNext()
	case l.unsettled:
		return l.restore()
	case l.refused != nil && l.refused.inUse:
		l, again := l.setClock(inUsePause)
		return l, []action{again}
	}
	return l, nil
}

// tryAgain: the jobs that kept an edit from being used may be over.
func (l life) tryAgain() (life, []action) {
	if l.refused == nil || !l.refused.inUse || l.next != nil {
		return l, nil
	}
	again := *l.refused
	again.forced, again.ticket = false, 0
	return l.edited(again)
}

// looked: the set that is tried was checked, and lies ready.
func (l life) looked(e checked) (life, []action) {
	if e.number != l.put || l.reloading != checking || l.isOver() {
		return l, nil
	}
	trying := l.trying
	switch {
	case l.doing == preparing:
		return l.lookedFirst(e)
	case e.err != nil:
		l.trying = nil
		return l.refuseUnseen(trying, e.err).carryOn()
	case l.next != nil:
		l.next, l.trying = l.next.over(trying), nil
		return l.carryOn()
	}
	tried := *trying
	tried.staged, tried.changes = e.staged, e.changes
	l.trying, l.reloading = &tried, sending
	l.put++
	return l, []action{awaitLaunches{l.put, l.patience(tried.set)}}
}

// patience is how long launches may keep a set from slurmctld.
func (l life) patience(set *confset.Set) time.Duration {
	if l.live != nil && set.KeyHash != l.live.KeyHash {
		return keySendLimit
	}
	return sendLimit
}

// launched: a reconfigure loses no launch any more, or cannot wait longer.
func (l life) launched(e launchesOver) (life, []action) {
	if e.number != l.put || l.reloading != sending || l.isOver() {
		return l, nil
	}
	switch trying := l.trying; {
	case l.next != nil:
		l.next, l.trying = l.next.over(trying), nil
		return l.carryOn()
	case e.err != nil:
		l.trying = nil
		return l.refuseUnseen(trying, e.err).carryOn()
	}
	return l.reconfigure(reconfiguring, l.trying.set, l.trying.staged)
}

// reconfigure puts a set in the place of the live one and has slurmctld take it.
func (l life) reconfigure(why reloading, set *confset.Set, staged string) (life, []action) {
	l.reloading, l.live, l.before, l.told = why, set, l.main, false
	l.put++
	l.silent++
	l, limit := l.setClock(takeLimit)
	return l, []action{reconfigure{l.put, set, staged}, limit}
}

func (l life) setClock(d time.Duration) (life, action) {
	l.clock++
	return l, armReload{l.clock, d}
}

// reconfigured: slurmctld has answered, or not. Without an answer its successor
// may come up all the same.
func (l life) reconfigured(e reconfigureEnded) (life, []action) {
	if e.number != l.put || l.isOver() || l.reloading != reconfiguring && l.reloading != restoring {
		return l, nil
	}
	if !errors.Is(e.err, slurm.ErrUnreachable) {
		l.silent = 0
	}
	switch {
	case e.err == nil, errors.Is(e.err, slurm.ErrUnreachable):
		l.told = true
		return l.taken()
	case l.reloading == restoring:
		return l.brood(e.err.Error())
	}
	return l.refuse(e.err.Error())
}

// reconfigureAgain: slurmctld is silent, which is no refusal.
func (l life) reconfigureAgain() (life, []action) {
	if l.silent >= hangs {
		return l.endHung(l.hanging())
	}
	return l.reconfigure(reconfiguring, l.trying.set, "")
}

// taken is asked when slurmctld has answered, and when it is Ready again: only
// with both, and with another main process, has it taken the set.
func (l life) taken() (life, []action) {
	if !l.told || l.state != Ready || l.main == l.before {
		return l, nil
	}
	if l.reloading == restoring {
		l.unsettled, l.brooded, l.attempts, l.following = false, "", 0, following{}
		l.clock++
		return l.carryOn()
	}
	return l.spreadOut()
}

// refuse: the set that is in place is not good. Its files may be on the nodes
// already (since 25.11 also when slurmctld has refused them), so the last good
// one is not only put back, but pushed. Daemons seldom tell the line that they do
// not like, so those that were changed are named.
func (l life) refuse(why string) (life, []action) {
	refused := l.trying
	l.trying = nil
	l.outcomes.rolledBack++
	l = l.judge(refused, strings.Join(append([]string{why}, refused.changes...), "\n"))
	l.unsettled, l.attempts = true, 0
	return l.restore()
}

func (l life) restore() (life, []action) {
	if l.silent >= hangs {
		return l.endHung(l.hanging())
	}
	return l.reconfigure(restoring, l.good, "")
}

// endHung ends a slurmctld that can be spoken to no more, and the container with it:
// the next one starts with its state. Jobs run on meanwhile.
func (l life) endHung(why string) (life, []action) {
	l.reloading = restoring
	l.put++
	l.clock++ // nothing that is under way matters any more
	return l.replace(why)
}

func (l life) hanging() string {
	return fmt.Sprintf("slurmctld hangs: %d reconfigures in a row had no answer within %v", l.silent, takeLimit)
}

// brood waits until the last good set is tried again; an edition that comes
// first may mend all.
func (l life) brood(why string) (life, []action) {
	l.reloading, l.brooded = brooding, why
	l.attempts++
	l, again := l.setClock(grow(time.Second, l.attempts-1, lastPause))
	l, actions := l.tryNext()
	return l, append(actions, again)
}

// reloadTimer: the time for the present part of a reload is over.
func (l life) reloadDue(e reloadTimer) (life, []action) {
	if e.number != l.clock || l.isOver() {
		return l, nil
	}
	switch l.reloading {
	case quiet:
		return l.tryAgain()
	case reconfiguring:
		return l.reconfigureAgain()
	case restoring:
		return l.brood("slurmctld does not take the last good configuration")
	case brooding:
		return l.restore()
	case spreading, restarting:
		return l.spreadDue()
	}
	return l, nil
}

// inUse is why a set cannot be used as long as there are jobs that need what it takes
// away, or nobody can tell whether there are.
type inUse struct{ why string }

func (e inUse) Error() string { return e.why }

func isInUse(err error) bool { return errors.As(err, &inUse{}) }

// sendLimit is how long a reconfigure waits. A slurmd that reconfigures itself
// answers afterwards, five seconds later where DNS does not answer it; one that is
// dead, not at all, and what is for it stays in the queue.
const sendLimit = 10 * time.Second

// keySendLimit is the same for new keys, which come to all daemons of a cluster at
// once: slurmd answers late, launches pile up, and are told in bursts until they have
// become few again. Nobody waits for keys; both kinds are accepted meanwhile.
const keySendLimit = 40 * time.Second
