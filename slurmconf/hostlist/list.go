package hostlist

import (
	"iter"
	"strings"
)

// List is hosts in the order in which they were named. The zero List is empty;
// a List does not change.
type List struct {
	spans []span
	hosts int
}

// Of is the list of single hosts, none of which is expanded.
func Of(hosts iter.Seq[string]) List {
	var l List
	for name := range hosts {
		l.push(hostSpan(name))
	}
	return l
}

// Concat is the hosts of all lists, one list after the other.
func Concat(lists ...List) List {
	var all List
	for _, l := range lists {
		for _, s := range l.spans {
			all.push(s)
		}
	}
	return all
}

// Len is the number of hosts, duplicates counted.
func (l List) Len() int { return l.hosts }

// All is every host in order, as `scontrol show hostnames` prints them.
func (l List) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, s := range l.spans {
			for name := range s.names() {
				if !yield(name) {
					return
				}
			}
		}
	}
}

// Nth is host n, from 0 on; false when the list has no so many.
func (l List) Nth(n int) (string, bool) {
	if n < 0 {
		return "", false
	}
	for _, s := range l.spans {
		if n < s.count() {
			return s.name(uint64(n)), true
		}
		n -= s.count()
	}
	return "", false
}

// Index is the position of the first host of that name, or -1. The name is
// compared as it is written: n1 is not n01.
func (l List) Index(name string) int {
	before := 0
	for _, s := range l.spans {
		if i, ok := s.index(name); ok {
			return before + i
		}
		before += s.count()
	}
	return -1
}

// Contains reports whether a host of that name is in the list.
func (l List) Contains(name string) bool { return l.Index(name) >= 0 }

// String is the list as one expression, as `scontrol show hostlist` prints it:
// what stands side by side is joined, the order and duplicates stay.
func (l List) String() string {
	var b strings.Builder
	for i := 0; i < len(l.spans); {
		if i > 0 {
			b.WriteByte(',')
		}
		i = l.writeGroup(&b, i)
	}
	return b.String()
}

// writeGroup writes the spans from i on that fit into one pair of brackets, and
// returns the index of the next.
func (l List) writeGroup(b *strings.Builder, i int) int {
	first := l.spans[i]
	b.WriteString(first.prefix)
	end := i + 1
	for end < len(l.spans) && l.spans[end-1].sameGroup(l.spans[end]) {
		end++
	}
	brackets := first.count() > 1 || end > i+1
	if brackets {
		b.WriteByte('[')
	}
	for k, s := range l.spans[i:end] {
		if k > 0 {
			b.WriteByte(',')
		}
		s.writeNumbers(b)
	}
	if brackets {
		b.WriteByte(']')
	}
	return end
}

// push adds a span, and joins it with the last one where it follows it.
func (l *List) push(s span) {
	l.hosts += s.count()
	if n := len(l.spans); n == 0 || !l.spans[n-1].extend(&s) {
		l.spans = append(l.spans, s)
	}
}
