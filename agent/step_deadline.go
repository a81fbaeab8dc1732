package agent

import (
	"errors"
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
)

// with is the allotment with the time that the pod's annotations grant now. What
// cannot be used changes nothing.
func (a *allotment) with(e measured) *allotment {
	next := *a
	next.granted = e.granted
	if e.err != nil {
		next.granted = e.granted.or(a.granted)
	}
	return &next
}

// hastenBy: on the way down only the time that is granted still counts.
func (l life) hastenBy(e measured) (life, []action) {
	l.fault = ""
	if bad, is := errors.AsType[badDescription](e.err); is {
		l.fault = bad.Error()
	}
	return l.hasten(e.at)
}

// order: somebody has set a deadline by hand, and the earliest counts.
func (l life) order(e ordered) (life, []action) {
	l.ordered = granted{Deadline: l.ordered}.sooner(cgroup.Bound[time.Time]{Value: e.deadline, Source: "slurmlet deadline"}).Deadline
	if l.state != Stopping {
		return l, nil
	}
	return l.hasten(e.at)
}

// hasten brings the deadlines of the way down forward where less time is granted
// than they were made for. None is ever put off: jobs may have been told.
func (l life) hasten(now time.Time) (life, []action) {
	end := l.granted.sooner(l.ordered).end(l.stoppedAt)
	if !end.Bounded() {
		return l, nil
	}
	elapsed := now.Sub(l.stoppedAt)
	way := l.way.within(elapsed, end.Value.Sub(now), l.lead)
	if way == l.way {
		return l, nil
	}
	l.way, l.by = way, end.Source
	if !l.bounded {
		return l, nil
	}
	return l, l.schedules(elapsed)
}
