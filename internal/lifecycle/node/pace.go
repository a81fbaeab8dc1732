package node

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// attempt asks for a change, and makes the node busy with it. Before a repeated one there is a
// pause, after which the node looks at the record again.
func (m machine) attempt(doing supervisor.Activity, c Change) (machine, []any) {
	if m.pace.made[c.Verb] > 0 && !m.pace.rested {
		return m.rest(m.pace.pause(c.Verb))
	}
	m.pace.rested = false
	m.pace.made[c.Verb]++
	m.pace.last = c.Verb
	return m.begins(doing, c)
}

// begins makes the node busy with a change. A timer of before is stale: what it asked would take
// the place of the change's outcome.
func (m machine) begins(doing supervisor.Activity, c Change) (machine, []any) {
	m.Activity = doing
	m.Question++
	m.Timer++
	c.Number = m.Question
	return m, []any{c}
}

// changeAgain looks at the record again after a change that slurmctld has not made, or of which
// the record must have. The pause is that before the next change, too.
func (m machine) changeAgain(reason string) (machine, []any) {
	m.Reason = reason
	m.Tries++
	return m.rest(max(backoff.Grow(backoff.FirstTry, m.Tries-1, m.lastTry()), m.pace.pause(m.pace.last)))
}

func (m machine) rest(pause time.Duration) (machine, []any) {
	m, actions := m.wait(pause)
	m.pace.resting = m.Timer
	return m, actions
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

// IsPaced says whether the record has been changed, so that the next change of its kind waits.
func (n State) IsPaced() bool { return n.pace != pace{} }

// repeats: the last change was not the first of its kind.
func (p pace) repeats() bool { return p.made[p.last] > 1 }

// actionDue: a deadline is over, and what it is for has not been done.
func (m machine) actionDue() bool {
	return m.Stage >= deadlines.Requeue && m.Acted < deadlines.Requeue || m.Stage >= deadlines.Fail && m.Acted < deadlines.Fail
}

// ActionDue says whether a deadline is over of which the action has not been taken.
func ActionDue(s supervisor.State, n State) bool { return machine{s, n}.actionDue() }
