package savedstate

import (
	"fmt"
	"time"
)

// Status is what crashes of slurmctld have lost.
type Status struct {
	// Lost are the jobs that slurmctld has forgotten, until somebody removes their directories in Dir.
	Lost []Job `json:"lost,omitempty"`
	// Again are those that run again since the last crash, because slurmctld had forgotten their start.
	Again []Job  `json:"again,omitempty"`
	Dir   string `json:"dir,omitempty"`
	// AgainTotal counts those that ran again since the container's start.
	AgainTotal int64 `json:"again_total"`
	// Fault is why nothing keeps a second slurmctld off the state, empty when a lock does.
	Fault string `json:"fault,omitempty"`
}

// Status returns nil where nobody looks after what slurmctld saves.
func (w *Watcher) Status() *Status {
	if w == nil {
		return nil
	}
	lost, again := w.Lost()
	return &Status{Lost: lost, Again: again, Dir: w.LostDir(), AgainTotal: w.ranAgain.Load(), Fault: w.Unlocked()}
}

// mostRows bounds how many jobs the text of the status has.
const mostRows = 20

// Rows writes the status for people.
func (s *Status) Rows(row func(name, format string, args ...any)) {
	for i, job := range s.Lost {
		if i == mostRows {
			row("Lost jobs", "%d more, in %s", len(s.Lost)-i, s.Dir)
			break
		}
		text := fmt.Sprintf("%s (%s)", job.Name, job.Kind)
		if job.User != "" {
			text += " of " + job.User
		}
		if job.JobName != "" {
			text += ", " + job.JobName
		}
		text += ", submitted " + job.Submitted.Format(time.RFC3339)
		if job.Nodes != "" {
			text += ", had started on " + job.Nodes
		}
		if job.Script != "" {
			text += ": " + job.Script
		}
		row("Lost job", "%s", text)
	}
	for i, job := range s.Again {
		if i == mostRows {
			row("Jobs that run again", "%d more", len(s.Again)-i)
			break
		}
		row("Runs again", "%s, had started on %s", job.Name, job.Nodes)
	}
	if s.Fault != "" {
		row("Note", "%s", s.Fault)
	}
}
