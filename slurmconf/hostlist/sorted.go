package hostlist

import (
	"cmp"
	"slices"
)

// Sorted is the list as `scontrol show hostlistsorted` prints it: by prefix, the
// numbers in it compared as numbers, then by number. Duplicates stay.
func (l List) Sorted() List {
	spans := mergeSort(slices.Clone(l.spans))
	return List{collapse(separate(spans)), l.hosts}
}

// mergeSort is the C library's: it compares the same pairs. Slurm's comparison
// changes widths, and is no order where they cannot be combined, so that another
// algorithm would sort otherwise.
func mergeSort(spans []span) []span {
	if len(spans) <= 1 {
		return spans
	}
	a, b := mergeSort(spans[:len(spans)/2]), mergeSort(spans[len(spans)/2:])
	merged := make([]span, 0, len(spans))
	for len(a) > 0 && len(b) > 0 {
		if compare(&a[0], &b[0]) <= 0 {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}

// compare orders spans by prefix, then by the lower number where both can have
// one width, else by width.
func compare(a, b *span) int {
	if c := comparePrefix(a, b); c != 0 {
		return c
	}
	if combine(a, b) {
		return cmp.Compare(a.lo, b.lo)
	}
	return a.width - b.width
}

func comparePrefix(a, b *span) int {
	if c := compareNatural(a.prefix, b.prefix); c != 0 {
		return c
	}
	switch {
	case a.single == b.single:
		return 0
	case b.single:
		return 1
	default:
		return -1
	}
}

// separate cuts spans that overlap: what both have is written host by host.
func separate(spans []span) []span {
	for i := len(spans) - 1; i > 0; i-- {
		before, after := &spans[i-1], &spans[i]
		if !before.sameGroup(*after) || before.lo > after.lo || before.hi <= after.lo || !combine(before, after) {
			continue
		}
		common := numbers{after.lo, min(before.hi, after.hi), before.width}
		if common.hi < before.hi {
			after.hi = before.hi
		}
		before.hi, after.lo = common.lo, common.hi
		doubles := doubled(before.prefix, common)
		spans = slices.Insert(spans, i, doubles...)
		// What is now after the doubles is compared once more.
		i = min(i+len(doubles)+2, len(spans))
	}
	return spans
}

// doubled is each number twice, save for the first and the last: of these, one
// stays with the spans that were cut.
func doubled(prefix string, common numbers) []span {
	var all []span
	for number := common.lo; number <= common.hi; number++ {
		one := span{prefix: prefix, numbers: numbers{number, number, common.width}}
		if number > common.lo {
			all = append(all, one)
		}
		if number < common.hi {
			all = append(all, one)
		}
	}
	return all
}

// collapse joins spans, from the last on, as Slurm does: a width that they take
// from each other goes to the left.
func collapse(spans []span) []span {
	joined := make([]span, 0, len(spans))
	for i := len(spans) - 1; i >= 0; i-- {
		if n := len(joined); n > 0 && spans[i].extend(&joined[n-1]) {
			joined[n-1] = spans[i]
			continue
		}
		joined = append(joined, spans[i])
	}
	slices.Reverse(joined)
	return joined
}
