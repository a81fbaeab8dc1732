package agent

import (
	"strings"
	"time"
)

// StoppingStatus is what the end of the container waits for, and until when.
type StoppingStatus struct {
	Since time.Time `json:"since"`
	// JobsUntil is when the jobs that still run are requeued or fail (slurmd),
	// Until when the agent exits at the latest.
	JobsUntil *time.Time `json:"jobs_until,omitempty"`
	Until     time.Time  `json:"until"`
	// Jobs are those of the node when slurmctld was asked last.
	Jobs []JobStatus `json:"jobs,omitempty"`
	// Left is what could not be done.
	Left string `json:"left,omitempty"`
}

// JobStatus is a job that is waited for. End is that of its time limit.
type JobStatus struct {
	ID    string    `json:"id"`
	User  string    `json:"user"`
	State string    `json:"state"`
	End   time.Time `json:"end"`
	// Requeue says whether it will be requeued when the time is over.
	Requeue bool `json:"requeue"`
}

// stopping is what SIGTERM, which came when Stopping began, has led to so far.
func (a *Agent) stopping(next life) *StoppingStatus {
	if a.stopped.IsZero() {
		a.stopped = time.Now()
	}
	s := &StoppingStatus{Since: a.stopped, Until: a.stopped.Add(next.way.Exit), Left: next.left}
	if next.registers {
		until := a.stopped.Add(next.way.Requeue)
		s.JobsUntil = &until
	}
	for _, j := range next.jobs {
		s.Jobs = append(s.Jobs, JobStatus{j.Name(), j.User, strings.Join(j.State, "+"), j.End.Time, j.Batch && j.Requeue})
	}
	return s
}

func (s *StoppingStatus) rows(row func(name, format string, args ...any)) {
	if s.JobsUntil != nil {
		row("Waiting", "since %s, for jobs until %s, at most until %s", s.Since.Format(time.RFC3339), s.JobsUntil.Format(time.RFC3339), s.Until.Format(time.RFC3339))
	} else {
		row("Waiting", "since %s, at most until %s", s.Since.Format(time.RFC3339), s.Until.Format(time.RFC3339))
	}
	for _, j := range s.Jobs {
		then := "may not be requeued"
		if j.Requeue {
			then = "will be requeued"
		}
		row("Job", "%s of %s, %s, its time limit ends %s; %s when the wait is over", j.ID, j.User, j.State, j.End.Format(time.RFC3339), then)
	}
	if s.Left != "" {
		row("Left", "%s", s.Left)
	}
}
