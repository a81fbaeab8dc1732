package hostlist

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// run is the numbers from lo to hi.
type run struct{ lo, hi uint64 }

// merge sorts runs and joins those that overlap or touch.
func merge(runs []run) []run {
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.lo, b.lo) })
	merged := runs[:1]
	for _, r := range runs[1:] {
		if last := &merged[len(merged)-1]; r.lo <= last.hi+1 {
			last.hi = max(last.hi, r.hi)
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}

// subtract is what of the runs is not in the others.
func subtract(runs, others []run) []run {
	var left []run
	for _, r := range runs {
		others = others[sort.Search(len(others), func(i int) bool { return others[i].hi >= r.lo }):]
		lo := r.lo
		for _, o := range others {
			if o.lo > r.hi {
				break
			}
			if o.lo > lo {
				left = append(left, run{lo, o.lo - 1})
			}
			lo = o.hi + 1
		}
		if lo <= r.hi {
			left = append(left, run{lo, r.hi})
		}
	}
	return left
}

// powerOf10 is 10 to the n, or the greatest number where that is too large.
func powerOf10(n int) uint64 {
	p := uint64(1)
	for range n {
		if p > math.MaxUint64/10 {
			return math.MaxUint64
		}
		p *= 10
	}
	return p
}
