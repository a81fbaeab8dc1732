package elasticnodes

import (
	"slices"
	"strconv"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
)

// startBounds are of the histogram of starts.
var startBounds = [...]time.Duration{
	2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second,
	30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
}

// StartTimes count how long nodes took from when they were wanted until they were up.
type StartTimes struct {
	buckets [len(startBounds) + 1]int
	seconds float64
}

// Add counts a start.
func (t *StartTimes) Add(d time.Duration) {
	i, _ := slices.BinarySearch(startBounds[:], d)
	t.buckets[i]++
	t.seconds += d.Seconds()
}

// ExposeStarts writes the histogram.
func (s *Status) ExposeStarts(w *exposition.Writer) {
	if s == nil || len(s.Sets) == 0 {
		return
	}
	const name = "slurmlet_elastic_start_seconds"
	w.Head(name, "Seconds from when Slurm wanted a node until it was up", exposition.Histogram)
	for i := range s.Sets {
		set, sum := &s.Sets[i], 0
		for i, n := range set.Starts.buckets {
			bound := "+Inf"
			if i < len(startBounds) {
				bound = strconv.FormatFloat(startBounds[i].Seconds(), 'f', -1, 64)
			}
			sum += n
			w.WriteSample(name+"_bucket", exposition.Labels("set,le", set.Name, bound), float64(sum))
		}
		w.WriteSample(name+"_sum", exposition.Labels("set", set.Name), set.Starts.seconds)
		w.WriteSample(name+"_count", exposition.Labels("set", set.Name), float64(sum))
	}
}
