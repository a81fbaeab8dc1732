package exposition

import (
	"slices"
	"strconv"
	"time"
)

// mostBounds is how many upper bounds a histogram has at most.
const mostBounds = 12

// Durations is a histogram of durations, as its bounds divide them. The zero value has counted none, and a copy counts for
// itself.
type Durations struct {
	// buckets are not cumulative, and the one after the last bound has what is above all bounds.
	buckets [mostBounds + 1]int
	seconds float64
}

// Add counts n things that took as long. The upper bounds are always the same.
func (d *Durations) Add(bounds []time.Duration, took time.Duration, n int) {
	i, _ := slices.BinarySearch(bounds, took)
	d.buckets[i] += n
	d.seconds += float64(n) * took.Seconds()
}

// WriteDurations adds the samples of a histogram with one label. The metric's head is a Histogram's.
func (w *Writer) WriteDurations(name, label, value string, bounds []time.Duration, d *Durations) {
	sum := 0
	for i, n := range d.buckets[:len(bounds)+1] {
		bound := "+Inf"
		if i < len(bounds) {
			bound = strconv.FormatFloat(bounds[i].Seconds(), 'f', -1, 64)
		}
		sum += n
		w.WriteSample(name+"_bucket", Labels(label+",le", value, bound), float64(sum))
	}
	w.WriteSample(name+"_sum", Labels(label, value), d.seconds)
	w.WriteSample(name+"_count", Labels(label, value), float64(sum))
}
