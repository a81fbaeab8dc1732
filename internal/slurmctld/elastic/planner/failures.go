package planner

import (
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// gaveUp: the node's pod does not start, and has had its time.
func (p *planner) gaveUp(n *slurm.Node) bool {
	f := p.failures[n.Name]
	if f == nil || !n.State.Starting() && (!n.Is("DOWN") || !n.Is("NOT_RESPONDING")) {
		return false
	}
	until := f.since.Add(failingTime)
	if f.reason == unschedulable {
		since, known := p.starting[n.Name]
		if p.ResumeTimeout == 0 || !known {
			return false // slurmctld gives it up by itself
		}
		until = since.Add(max(p.ResumeTimeout-margin, failingTime))
	}
	if p.now.Before(until) {
		p.lookBy(until)
		return false
	}
	return true
}

// giveUp sets a node DOWN whose pod does not start.
func (p *planner) giveUp(n *slurm.Node) bool {
	if p.isForeign(n) || n.Off() || !p.gaveUp(n) {
		return false
	}
	f := p.failures[n.Name]
	p.do(Fail, n.Name, reasonOf(f.reason, f.note))
	return true
}

// retryDown decides about a node that is DOWN, and not by somebody else.
func (p *planner) retryDown(n *slurm.Node, set Set) {
	word, failed := failedReason(n)
	silent := reasons.Has(n.Reason, reasons.NotResponding)
	if failed {
		p.running[set.Name]++ // others would not start either
	}
	switch {
	case silent && p.giveUp(n):
		return
	case silent && !n.Off(): // its slurmd may come back, or its next pod's
		return
	case silent: // slurmctld has suspended it, and nobody else brings it back
	case !n.Off() && p.holdsJobs(n):
		p.lookSoon() // slurmctld takes them off
		return
	case !n.Off() && n.Reason == reasons.SetNew:
		p.do(Resume, n.Name, "")
		return
	case !n.Off():
		if !n.Is("POWER_DOWN") {
			p.do(PowerDown, n.Name, "")
		}
		p.lookSoon()
		return
	}
	if failed {
		until := p.pauseUntil(set.Name, word, n.ReasonAt.Time())
		if s := p.standing[set.Name]; s.Retry.IsZero() || until.Before(s.Retry) {
			s.Retry = until
		}
		if p.now.Before(until) {
			p.lookBy(until)
			return
		}
	}
	if !p.isPoweredOff(n) {
		p.lookSoon()
		return
	}
	p.do(Resume, n.Name, "")
}

// pauseUntil is when nodes of the set that failed for a reason may be tried again. One that fails after that
// waits twice as long.
func (p *planner) pauseUntil(set, reason string, at time.Time) time.Time {
	key := pauseKey{set, reason}
	one := p.pauses[key]
	if one == nil {
		one = &pause{}
		p.pauses[key] = one
	}
	if at.After(one.until) {
		one.until = at.Add(backoff.Grow(firstBackoff, one.tries, lastBackoff))
		one.tries++
	}
	return one.until
}

// mostReason bounds a reason, in bytes.
const mostReason = 200

func reasonOf(reason, note string) string {
	text := reasons.ByAgent + reason + ": " + note
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\'' {
			return ' '
		}
		return r
	}, text)
	return strings.TrimSpace(text[:min(len(text), mostReason)])
}

// failedReason is why a node that is DOWN did not start, in a word.
func failedReason(n *slurm.Node) (word string, is bool) {
	if !n.Is("DOWN") {
		return "", false
	}
	switch {
	case n.Off() && reasons.Has(n.Reason, reasons.TimedOut):
		return "ResumeTimeout", true
	case reasons.Has(n.Reason, reasons.NotResponding):
		return "", false
	}
	rest, mine := strings.CutPrefix(n.Reason, reasons.ByAgent)
	word, _, more := strings.Cut(rest, ":")
	if !mine || !more || word == "" || strings.ContainsAny(word, " ") || word[0] < 'A' || word[0] > 'Z' {
		return "", false
	}
	return word, true
}
