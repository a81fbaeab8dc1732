package agent

import (
	"errors"
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/nodesize"
)

// takeGrace takes the time to end that the pod's annotations grant now. What cannot
// be used changes nothing.
func (l life) takeGrace(e measured) life {
	next := *l.Allocation
	next.Grace = e.Grace
	if e.err != nil {
		next.Grace = e.Grace.Or(l.Grace)
	}
	l.Allocation = &next
	return l
}

// hastenBy: on the way down only the time that is granted still counts.
func (l life) hastenBy(e measured) (life, []action) {
	l.fault = ""
	if bad, is := errors.AsType[nodesize.PodInfoError](e.err); is {
		l.fault = bad.Error()
	}
	return l.hasten(e.at)
}

// order: somebody has set a deadline by hand, and the earliest counts.
func (l life) order(e ordered) (life, []action) {
	l.ordered = nodesize.Grace{Deadline: l.ordered}.Sooner(cgroup.Bound[time.Time]{Value: e.deadline, Source: "slurmlet deadline"}).Deadline
	if l.state != Stopping {
		return l, nil
	}
	return l.hasten(e.at)
}

// hasten brings the deadlines of the way down forward where less time is granted
// than they were made for. None is ever put off: jobs may have been told.
func (l life) hasten(now time.Time) (life, []action) {
	end := l.Grace.Sooner(l.ordered).End(l.stoppedAt)
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
