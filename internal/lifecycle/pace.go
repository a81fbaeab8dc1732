package lifecycle

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
)

// pace keeps a node from changing the same thing again and again, as where slurmctld refuses each
// registration, or where somebody undoes each change. The first change of a kind is immediate,
// the next ones lie apart, up to a minute. The counts begin anew when the node is Ready, when the
// pod gets another size, with SIGTERM, and with each deadline of the way down.
type pace struct {
	// made counts the changes by verb.
	made [verbCount]int
	// last is the verb of the last one.
	last Verb
	// resting: the pause before the next change runs. rested: it is over.
	resting, rested bool
}

// attempt asks for a change, and makes the node busy with it. Before a repeated one there is a
// pause, after which the node looks at the record again.
func (l State) attempt(doing Activity, c Change) (State, []Action) {
	if l.pace.made[c.Verb] > 0 && !l.pace.rested {
		return l.rest(l.pace.pause(c.Verb))
	}
	l.pace.rested = false
	l.pace.made[c.Verb]++
	l.pace.last = c.Verb
	return l.begins(doing, c)
}

// begins makes the node busy with a change. A timer of before is stale: what it asked would take
// the place of the change's outcome.
func (l State) begins(doing Activity, c Change) (State, []Action) {
	l.Activity = doing
	l.question++
	l.timer++
	c.Number = l.question
	return l, []Action{c}
}

// changeAgain looks at the record again after a change that slurmctld has not made, or of which
// the record must tell. The pause is that before the next change, too.
func (l State) changeAgain(reason string) (State, []Action) {
	l.Reason = reason
	l.Tries++
	return l.rest(max(backoff.Grow(backoff.FirstTry, l.Tries-1, l.lastTry()), l.pace.pause(l.pace.last)))
}

func (l State) rest(pause time.Duration) (State, []Action) {
	l, actions := l.wait(pause)
	l.pace.resting = true
	return l, actions
}

// pause is the one before the next change: 50 ms, 200 ms, 800 ms and so on, by all that were
// repeated. It is never long where jobs have no minute left: both verbs are over once slurmctld has
// done them.
func (p pace) pause(v Verb) time.Duration {
	last, repeats := backoff.LastQuiet, 0
	if v == RequeueJobs || v == FailNode || v == PowerOffNode {
		last = backoff.LastTry
	}
	for _, made := range p.made {
		repeats += max(made-1, 0)
	}
	return backoff.Grow(backoff.FirstTry, 2*repeats, last)
}

// repeats: the last change was not the first of its kind.
func (p pace) repeats() bool { return p.made[p.last] > 1 }

// actionDue: a deadline is over, and what it is for has not been done.
func (l State) actionDue() bool {
	return l.stage >= toRequeue && l.acted < toRequeue || l.stage >= toFail && l.acted < toFail
}
