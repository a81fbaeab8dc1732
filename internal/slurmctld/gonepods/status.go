package gonepods

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Status is what slurmctld's agent reports to slurmlet's controller, and what it does with the records
// of pods that are gone.
type Status struct {
	// Looked is when slurmctld was asked for its nodes last, and answered; the counts are of that time.
	Looked time.Time `json:"looked,omitzero"`
	Idle   int       `json:"idle"`
	Busy   int       `json:"busy"`
	Absent int       `json:"absent"`
	// Connected counts nodes' agents that follow slurmctld's agent, or have done so a moment ago.
	Connected int `json:"connected"`
	// Fault is why slurmctld has not answered since.
	Fault string `json:"fault,omitempty"`
	// Waiting counts pods that are gone whose records stay for now. Kept has some of them, and why.
	Waiting int               `json:"waiting"`
	Kept    map[string]string `json:"kept,omitempty"`
	// Deleted counts records, and Lost nodes whose machines were gone while jobs held them.
	Deleted int `json:"deleted"`
	Lost    int `json:"lost"`
}

// mostKept bounds how many records the status names.
const mostKept = 20

// Status returns nil where there is no controller to report to.
func (r *Reconciler) Status() *Status {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, kept := r.status, r.pods.Kept()
	counts, at := r.Reporter.Counts()
	s.Looked, s.Idle, s.Busy, s.Absent = at, counts[wire.Idle], counts[wire.Busy], counts[wire.Absent]
	if at.After(r.failedAt) {
		s.Fault = ""
	}
	s.Waiting = len(kept)
	if len(kept) > 0 {
		s.Kept = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(kept))[:min(len(kept), mostKept)] {
		s.Kept[name] = kept[name]
	}
	return &s
}

// Rows writes the status for people.
func (s *Status) Rows(row func(name, format string, args ...any)) {
	if s.Looked.IsZero() {
		row("Nodes", "slurmctld has not been asked for the controller yet")
	} else {
		row("Nodes", "%d idle, %d busy, %d absent, %d agents connected at %s", s.Idle, s.Busy, s.Absent, s.Connected,
			s.Looked.Format(time.RFC3339))
	}
	if s.Fault != "" {
		row("Fault", "%s", s.Fault)
	}
	if s.Waiting > 0 || s.Deleted > 0 || s.Lost > 0 {
		row("Pods gone", "%d records deleted, %d nodes lost with jobs, %d records stay for now", s.Deleted, s.Lost, s.Waiting)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Kept)) {
		row("Record stays", "%s", fmt.Sprintf("%s: %s", name, s.Kept[name]))
	}
}
