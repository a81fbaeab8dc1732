package lifecycle

import (
	"errors"
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// takeGrace takes the time to end that the pod's annotations grant now. What cannot
// be used changes nothing.
func (l State) takeGrace(e Measured) State {
	next := *l.Allocation
	next.Grace = e.Grace
	if e.Err != nil {
		next.Grace = e.Grace.Or(l.Grace)
	}
	l.Allocation = &next
	return l
}

// hastenBy: on the way down only the time that is granted still counts.
func (l State) hastenBy(e Measured) (State, []Action) {
	l.Fault = ""
	if bad, is := errors.AsType[nodesize.PodInfoError](e.Err); is {
		l.Fault = bad.Error()
	}
	return l.hasten(e.At)
}

// order: somebody has set a deadline, and the earliest counts.
func (l State) order(e DeadlineSet) State {
	if e.Grace > 0 {
		l.Granted = nodesize.Grace{GracePeriod: l.Granted}.Within(cgroup.Bound[time.Duration]{Value: e.Grace, Source: e.Source}).GracePeriod
		return l
	}
	l.Deadline = nodesize.Grace{Deadline: l.Deadline}.Sooner(cgroup.Bound[time.Time]{Value: e.Deadline, Source: e.Source}).Deadline
	return l
}

// hasten brings the deadlines of the way down forward where less time is granted
// than they were made for. None is ever put off: jobs and users may have been told. A daemon that stops
// already is killed earlier, whatever its role.
func (l State) hasten(now time.Time) (State, []Action) {
	end := l.Grace.Within(l.Granted).Sooner(l.Deadline).End(l.StoppedAt)
	if !end.Bounded() {
		return l, nil
	}
	elapsed := now.Sub(l.StoppedAt)
	sooner := l.Deadlines.within(elapsed, end.Value.Sub(now), l.Lead)
	if sooner == l.Deadlines {
		return l, nil
	}
	less := sooner.Fail < l.Deadlines.Fail
	l.Deadlines, l.HastenedBy = sooner, end.Source
	var actions []Action
	if l.bounded {
		actions = l.schedules(elapsed) // a slurmd that stops may hand over, and begin anew
	}
	switch {
	case l.Activity == Ending, l.Activity == Converting:
		actions = append(actions, Schedule{toEnd, max(sooner.End-elapsed, 0)})
	case l.bounded && l.Hosts && less && !l.passed[toFail]:
		actions = append(actions, WarnSessions{max(sooner.Fail-elapsed, 0)})
	}
	return l, actions
}
