package hostlist

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// term is one word of an expression: pieces, each of which ends in a bracket,
// and what follows the last one. Without a bracket it is one host.
type term struct {
	pieces []piece
	suffix string
}

// piece is text and the numbers in the bracket behind it.
type piece struct {
	text    string
	numbers []numbers
}

// parseTerm looks for brackets from the end on, as Slurm does. Before the last
// pair, a bracket that is not closed is text.
func parseTerm(word string) (term, error) {
	opened := strings.LastIndexByte(word, '[')
	if opened < 0 {
		return term{suffix: word}, checkLength(len(word), word)
	}
	inside, suffix, closed := strings.Cut(word[opened+1:], "]")
	if !closed {
		return term{}, fmt.Errorf("%s has no ] after its last [", quote(word))
	}
	t := term{suffix: suffix}
	for rest, more := word[:opened], true; more; {
		n, err := parseNumbers(inside)
		if err != nil {
			return term{}, err
		}
		var text string
		rest, inside, text, more = cutLastBracket(rest)
		t.pieces = append(t.pieces, piece{text, n})
	}
	slices.Reverse(t.pieces)
	return t, t.check(word)
}

// cutLastBracket takes "rest[inside]text" apart; without brackets, all is text.
func cutLastBracket(s string) (rest, inside, text string, found bool) {
	opened := strings.LastIndexByte(s, '[')
	closed := strings.LastIndexByte(s, ']')
	if opened < 0 || closed < opened {
		return "", "", s, false
	}
	return s[:opened], s[opened+1 : closed], s[closed+1:], true
}

func (t term) check(word string) error {
	length := len(t.suffix)
	for i, p := range t.pieces {
		length += len(p.text) + p.width()
		if n := p.count(); i < len(t.pieces)-1 && n > MaxRange {
			return fmt.Errorf("%w: a bracket before the last one of %s gives %d numbers, allowed are %d", ErrTooMany,
				quote(word), n, MaxRange)
		}
	}
	return checkLength(length, word)
}

func checkLength(length int, word string) error {
	if length > MaxName {
		return fmt.Errorf("%w: %s gives a name of %d bytes, allowed are %d", ErrTooLong, quote(word), length, MaxName)
	}
	return nil
}

// count is the number of hosts; overflow when it is more than a uint64 holds.
func (t term) count() (hosts uint64, overflow bool) {
	hosts = 1
	for _, p := range t.pieces {
		var high uint64
		high, hosts = bits.Mul64(hosts, p.count())
		overflow = overflow || high != 0
	}
	return hosts, overflow
}

// count is at most Slurm's ranges in a bracket times MaxRange, 2^34.
func (p piece) count() (n uint64) {
	for _, r := range p.numbers {
		n += r.hi - r.lo + 1
	}
	return n
}

func (p piece) width() (widest int) {
	for _, r := range p.numbers {
		widest = max(widest, r.width, digits(r.hi))
	}
	return widest
}

// expand pushes the hosts in Slurm's order: of the brackets before the last one,
// the first varies fastest.
func (t term) expand(l *List) {
	last := len(t.pieces) - 1
	if last < 0 {
		l.push(hostSpan(t.suffix))
		return
	}
	t.expandBefore(last, "", l)
}

// expandBefore fixes the numbers of the pieces before i, from the right to the
// left, where tail is what stands between those of piece i and the last bracket.
func (t term) expandBefore(i int, tail string, l *List) {
	tail = t.pieces[i].text + tail
	if i == 0 {
		t.expandLast(tail, l)
		return
	}
	for _, r := range t.pieces[i-1].numbers {
		for k := range r.hi - r.lo + 1 {
			t.expandBefore(i-1, string(r.append(nil, r.lo+k))+tail, l)
		}
	}
}

func (t term) expandLast(prefix string, l *List) {
	for _, r := range t.pieces[len(t.pieces)-1].numbers {
		if t.suffix == "" {
			l.push(span{prefix: prefix, numbers: r})
			continue
		}
		for k := range r.hi - r.lo + 1 {
			name := append(r.append([]byte(prefix), r.lo+k), t.suffix...)
			l.push(span{prefix: string(name), single: true})
		}
	}
}

// numbers are lo to hi, padded with zeros to width.
type numbers struct {
	lo, hi uint64
	width  int
}

func (n numbers) append(b []byte, number uint64) []byte {
	for range n.width - digits(number) {
		b = append(b, '0')
	}
	return strconv.AppendUint(b, number, 10)
}
