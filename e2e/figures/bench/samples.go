package main

import (
	"math"
	"slices"
	"time"
)

// samples are milliseconds, or ratios of them, in the order of the rounds.
type samples []float64

func (s *samples) add(d time.Duration) { *s = append(*s, float64(d)/float64(time.Millisecond)) }

func (s samples) median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// over divides round by round: what slows a whole round down cancels out.
func (s samples) over(base samples) samples {
	ratios := make(samples, 0, len(s))
	for i := range s {
		ratios = append(ratios, s[i]/base[i])
	}
	return ratios
}
