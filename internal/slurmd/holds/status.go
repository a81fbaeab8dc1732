package holds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
)

// Status is what "slurmlet status" shows of holds.
type Status struct {
	Jobs []JobStatus `json:"jobs"`
}

// JobStatus is the hold of one job.
type JobStatus struct {
	Job   uint32    `json:"job"`
	Since time.Time `json:"since"`
	// Ended says that Slurm has ended the job on this node, and Drained that the node is drained until its pods are gone.
	Ended   bool `json:"ended,omitempty"`
	Drained bool `json:"drained,omitempty"`
	// Pods are those that the controller has named last. Fault is why it has not answered since.
	Pods  []string `json:"pods,omitempty"`
	Fault string   `json:"fault,omitempty"`
}

// Status is the present one, nil of nil Holds.
func (h *Holds) Status() *Status {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &Status{}
	for _, one := range h.held {
		s.Jobs = append(s.Jobs, JobStatus{one.job, one.since, one.ended, one.drained, one.pods, one.fault})
	}
	slices.SortFunc(s.Jobs, func(a, b JobStatus) int { return cmp.Compare(a.Job, b.Job) })
	return s
}

// Rows are for people.
func (s *Status) Rows(row func(name, format string, args ...any)) {
	for _, one := range s.Jobs {
		text := fmt.Sprintf("job %d since %s", one.Job, one.Since.Format(time.RFC3339))
		switch {
		case one.Drained:
			text += ": it has ended, and the node is drained until its pods are gone"
		case one.Ended:
			text += ": it has ended, and its epilog waits until its pods are gone"
		}
		if one.Ended && len(one.Pods) > 0 {
			text += " (" + strings.Join(one.Pods, ", ") + ")"
		}
		if one.Fault != "" {
			text += "; the controller has not answered: " + one.Fault
		}
		row("Hold", "%s", text)
	}
}

func (s *Status) count(is func(JobStatus) bool) (n int) {
	for _, one := range s.Jobs {
		if is(one) {
			n++
		}
	}
	return n
}

// Metrics are those of holds. docs/reference/metrics-list.md lists them all.
var Metrics = []exposition.Metric[Status]{
	{
		Name: "holds", Help: "Jobs of Kubernetes' pods that the node holds for",
		Samples: func(s *Status) []exposition.Sample { return exposition.Amount(len(s.Jobs)) },
	},
	{
		Name: "holds_ended", Help: "Those of them that have ended, and whose pods are not known to be gone",
		Samples: func(s *Status) []exposition.Sample {
			return exposition.Amount(s.count(func(one JobStatus) bool { return one.Ended }))
		},
	},
	{
		Name: "holds_drained", Help: "Those of them for which the node is drained",
		Samples: func(s *Status) []exposition.Sample {
			return exposition.Amount(s.count(func(one JobStatus) bool { return one.Drained }))
		},
	},
}
