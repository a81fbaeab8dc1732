package deadlines

import (
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// Stage is what a deadline of the way down is for.
type Stage int

// The stages, in their order.
const (
	None Stage = iota // no deadline is over
	Signal
	Requeue
	Kill
	Fail
	Leave
	Stop
	End // SIGKILL, of a daemon that has less time now than it had when it was asked to end
)

// DeadlinePassed: one of the way down is over.
type DeadlinePassed struct{ Stage Stage }

// DeadlineSet: Source has said when the pod is killed: at Deadline, or Grace after SIGTERM.
type DeadlineSet struct {
	At, Deadline time.Time
	Grace        time.Duration
	Source       string
}

// Schedule posts a deadline.
type Schedule struct {
	Stage Stage
	After time.Duration
}

// State is the time that a container has for its end.
type State struct {
	// Deadlines is that of SLURMLET_GRACE_PERIOD until SIGTERM comes, and less time is
	// granted (Hasten). Lead is how long before their requeue jobs get a signal.
	Deadlines Deadlines
	Lead      time.Duration
	// StoppedAt is when SIGTERM came, Deadline is one that somebody has set by hand, Granted the time
	// from SIGTERM on that the pod's deletion grants, and HastenedBy who grants less than
	// SLURMLET_GRACE_PERIOD.
	StoppedAt  time.Time
	Deadline   cgroup.Bound[time.Time]
	Granted    cgroup.Bound[time.Duration]
	HastenedBy string
	// Bound: the deadlines of the way down run. Over are those that have passed, and Stage is the
	// last of them.
	Bound bool
	Over  [End + 1]bool
	Stage Stage
}

// Order takes a deadline that somebody has set. The earliest counts.
func (s State) Order(e DeadlineSet) State {
	if e.Grace > 0 {
		s.Granted = nodesize.Grace{GracePeriod: s.Granted}.Within(cgroup.Bound[time.Duration]{Value: e.Grace, Source: e.Source}).GracePeriod
		return s
	}
	s.Deadline = nodesize.Grace{Deadline: s.Deadline}.Sooner(cgroup.Bound[time.Time]{Value: e.Deadline, Source: e.Source}).Deadline
	return s
}

// Hasten brings the deadlines forward where less time is granted than they were made for, by the
// pod's annotations (grace) or by Order. None is ever put off, because jobs and users may know of it.
func (s State) Hasten(grace nodesize.Grace, now time.Time) State {
	end := grace.Within(s.Granted).Sooner(s.Deadline).End(s.StoppedAt)
	if !end.Bounded() {
		return s
	}
	elapsed := now.Sub(s.StoppedAt)
	sooner := s.Deadlines.within(elapsed, end.Value.Sub(now), s.Lead)
	if sooner != s.Deadlines {
		s.Deadlines, s.HastenedBy = sooner, end.Source
	}
	return s
}

// Pass notes that a deadline is over.
func (s State) Pass(stage Stage) State {
	s.Over[stage], s.Stage = true, max(s.Stage, stage)
	return s
}

// ToCome are the deadlines of these stages that are still to come, elapsed after SIGTERM.
func (s State) ToCome(elapsed time.Duration, stages ...Stage) []any {
	var actions []any
	for _, stage := range stages {
		if !s.Over[stage] {
			actions = append(actions, Schedule{stage, max(s.Deadlines.at(stage)-elapsed, 0)})
		}
	}
	return actions
}

// at returns when a stage begins, as the time since SIGTERM.
func (w Deadlines) at(stage Stage) time.Duration {
	return [...]time.Duration{
		Signal: w.Signal, Requeue: w.Requeue, Kill: w.Kill, Fail: w.Fail, Leave: w.Leave, Stop: w.Stop, End: w.End,
	}[stage]
}
