package hostlist

import (
	"iter"
	"strconv"
	"strings"
)

// span is a run of hosts: a prefix with numbers behind it, or a single host that
// does not end in a number and is all prefix.
type span struct {
	prefix string
	numbers
	single bool
}

// hostSpan is the span of one host.
func hostSpan(name string) span {
	stem := strings.TrimRight(name, "0123456789")
	number, err := strconv.ParseUint(name[len(stem):], 10, 64)
	if err != nil { // No digits, or more than a number holds.
		return span{prefix: name, single: true}
	}
	return span{prefix: stem, numbers: numbers{number, number, len(name) - len(stem)}}
}

func (s span) count() int { return int(s.hi - s.lo + 1) }

func (s span) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		buffer := append(make([]byte, 0, 64), s.prefix...)
		for i := range uint64(s.count()) {
			if !yield(s.nameIn(buffer, i)) {
				return
			}
		}
	}
}

func (s span) name(i uint64) string { return s.nameIn([]byte(s.prefix), i) }

// nameIn is the name of host i of the span, where the buffer begins with its
// prefix.
func (s span) nameIn(buffer []byte, i uint64) string {
	if s.single {
		return s.prefix
	}
	return string(s.append(buffer, s.lo+i))
}

// index is the position in the span of the host of that name.
func (s span) index(name string) (int, bool) {
	rest, ok := strings.CutPrefix(name, s.prefix)
	if !ok || s.single {
		return 0, ok && rest == ""
	}
	number, err := strconv.ParseUint(rest, 10, 64)
	if err != nil || number < s.lo || number > s.hi || len(rest) != max(s.width, digits(number)) {
		return 0, false
	}
	return int(number - s.lo), true
}

func (s span) writeNumbers(b *strings.Builder) {
	if s.single {
		return
	}
	b.Write(s.append(nil, s.lo))
	if s.hi > s.lo {
		b.WriteByte('-')
		b.Write(s.append(nil, s.hi))
	}
}

// extend joins next to s when it begins where s ends.
func (s *span) extend(next *span) bool {
	if !s.sameGroup(*next) || next.lo == 0 || s.hi != next.lo-1 || !combine(s, next) {
		return false
	}
	s.hi = next.hi
	return true
}

// sameGroup reports whether both may stand in one pair of brackets.
func (s span) sameGroup(next span) bool {
	return !s.single && !next.single && s.prefix == next.prefix
}

// combine reports whether both can be written with one width, and then gives them
// the same: 9 and 10, or 09 and 10, but not 9 and 010.
func combine(a, b *span) bool {
	if a.width == b.width {
		return true
	}
	changesA := padding(a.lo, a.width) != padding(a.lo, b.width)
	changesB := padding(b.lo, b.width) != padding(b.lo, a.width)
	switch {
	case changesA && changesB:
		return false
	case changesA:
		b.width = a.width
	default:
		a.width = b.width
	}
	return true
}

func padding(number uint64, width int) int { return max(0, width-digits(number)) }

func digits(number uint64) int {
	n := 1
	for ; number >= 10; number /= 10 {
		n++
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
