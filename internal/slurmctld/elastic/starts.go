package elastic

import (
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
)

// StartBounds are the upper bounds of the histogram of starts.
var StartBounds = []time.Duration{
	2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second,
	30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
}

// ExposeStarts writes how long nodes took from when they were wanted until they were up.
func (s *Status) ExposeStarts(w *exposition.Writer) {
	if s == nil || len(s.Sets) == 0 {
		return
	}
	const name = "slurmlet_elastic_start_seconds"
	w.Head(name, "Seconds from when Slurm wanted a node until it was up", exposition.Histogram)
	for i := range s.Sets {
		w.WriteDurations(name, "set", s.Sets[i].Name, StartBounds, &s.Sets[i].Starts)
	}
}
