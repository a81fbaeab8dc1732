package hostlist

import (
	"cmp"
	"iter"
	"slices"
	"sort"
	"strconv"
)

// Set is hosts without order and duplicates. The zero Set is empty; a Set does
// not change. It takes memory for runs of hosts, not for hosts.
//
// Two hosts are the same when their names are, however they were written:
// nid0000[2-7] is nid[00002-00007].
type Set struct {
	runs map[family][]run // Neither empty, overlapping nor adjacent; ascending.
}

// Set is the list's hosts.
func (l List) Set() Set {
	runs := map[family][]run{}
	for _, s := range l.spans {
		for f, r := range s.familyRuns() {
			runs[f] = append(runs[f], r)
		}
	}
	for f := range runs {
		runs[f] = merge(runs[f])
	}
	return Set{runs}
}

// Len is the number of hosts.
func (s Set) Len() int {
	n := 0
	for _, runs := range s.runs {
		for _, r := range runs {
			n += int(r.hi - r.lo + 1)
		}
	}
	return n
}

// Contains reports whether a host of that name is in the set.
func (s Set) Contains(name string) bool {
	f, number := familyOf(name)
	runs := s.runs[f]
	i := sort.Search(len(runs), func(i int) bool { return runs[i].hi >= number })
	return i < len(runs) && runs[i].lo <= number
}

// Union is the hosts that are in either set.
func (s Set) Union(other Set) Set {
	return UnionOf(slices.Values([]Set{s, other}))
}

// UnionOf is the hosts that are in any of the sets. For many sets it is much less work than Union for each.
func UnionOf(sets iter.Seq[Set]) Set {
	all := map[family][]run{}
	for s := range sets {
		for f, runs := range s.runs {
			all[f] = append(all[f], runs...)
		}
	}
	for f := range all {
		all[f] = merge(all[f])
	}
	return Set{all}
}

// Difference is the hosts of s that are not in other.
func (s Set) Difference(other Set) Set {
	left := map[family][]run{}
	for f, runs := range s.runs {
		if remaining := subtract(runs, other.runs[f]); len(remaining) > 0 {
			left[f] = remaining
		}
	}
	return Set{left}
}

// Intersection is the hosts that are in both sets.
func (s Set) Intersection(other Set) Set {
	return s.Difference(s.Difference(other))
}

// List is the hosts in the order of [List.Sorted].
func (s Set) List() List {
	var spans []span
	for f, runs := range s.runs {
		for _, r := range runs {
			spans = append(spans, span{f.stem, numbers{r.lo, r.hi, f.digits}, f.digits == 0})
		}
	}
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(comparePrefix(&a, &b), cmp.Compare(a.lo, b.lo), cmp.Compare(a.width, b.width))
	})
	var l List
	for _, s := range spans {
		l.push(s)
	}
	return l
}

// All is every host, in the order of List.
func (s Set) All() iter.Seq[string] { return s.List().All() }

// String is the shortest expression that this package knows for the set.
func (s Set) String() string { return s.List().String() }

// family is the names that differ in their last number only, and have as many
// digits in it. The stem has no digit at its end, unless there are too many.
type family struct {
	stem   string
	digits int
}

// maxDigits is how many digits of a name are its number; a uint64 holds them.
const maxDigits = 18

func familyOf(name string) (family, uint64) {
	stem := len(name)
	for stem > 0 && len(name)-stem < maxDigits && isDigit(name[stem-1]) {
		stem--
	}
	number, _ := strconv.ParseUint(name[stem:], 10, 64) // Digits only, or none: 0.
	return family{name[:stem], len(name) - stem}, number
}

// familyRuns cuts the span where its names get a digit more, and where they leave the
// family of the first one.
func (s span) familyRuns() iter.Seq2[family, run] {
	return func(yield func(family, run) bool) {
		for done := uint64(0); done < uint64(s.count()); {
			f, first := s.family(done)
			most := min(uint64(s.count())-done, powerOf10(f.digits)-first)
			if !s.single {
				number := s.lo + done
				most = min(most, powerOf10(max(s.width, digits(number)))-number)
			}
			if !yield(f, run{first, first + most - 1}) {
				return
			}
			done += most
		}
	}
}

// family is that of the name i. Mostly it is the prefix, and no name is made.
func (s span) family(i uint64) (family, uint64) {
	number := s.lo + i
	length := max(s.width, digits(number))
	if s.single || length > maxDigits || s.prefix != "" && isDigit(s.prefix[len(s.prefix)-1]) {
		return familyOf(s.name(i))
	}
	return family{s.prefix, length}, number
}
