package agent

import (
	"time"
)

// StoppingStatus is what the end of the container waits for, and until when.
type StoppingStatus struct {
	Since time.Time `json:"since"`
	// JobsUntil is when the jobs that still run are requeued or fail (slurmd),
	// Until when the agent exits at the latest.
	JobsUntil *time.Time `json:"jobs_until,omitempty"`
	Until     time.Time  `json:"until"`
	// By is who grants less time than SLURMLET_GRACE_PERIOD, empty for nobody.
	By string `json:"by,omitempty"`
	// Jobs are those of the node when slurmctld was asked last.
	Jobs []JobStatus `json:"jobs,omitempty"`
	// Left is what could not be done. Unanswered says that slurmctld did not answer the last question.
	Left       string `json:"left,omitempty"`
	Unanswered bool   `json:"unanswered,omitempty"`
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

func (s *StoppingStatus) rows(row func(name, format string, args ...any)) {
	text := "since " + s.Since.Format(time.RFC3339)
	if s.JobsUntil != nil {
		text += ", for jobs until " + s.JobsUntil.Format(time.RFC3339)
	}
	text += ", at most until " + s.Until.Format(time.RFC3339)
	if s.By != "" {
		text += " (" + s.By + ")"
	}
	row("Waiting", "%s", text)
	for _, j := range s.Jobs {
		then := "may not be requeued"
		if j.Requeue {
			then = "will be requeued"
		}
		row("Job", "%s of %s, %s, its time limit ends %s; %s when the wait is over",
			j.ID, j.User, j.State, j.End.Format(time.RFC3339), then)
	}
	if s.Left != "" {
		row("Left", "%s", s.Left)
	}
}
