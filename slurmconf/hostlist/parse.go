package hostlist

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

const (
	// MaxRange is how many hosts one range, and all of a bracket that is not the
	// last, may have: Slurm's MAX_SLURM_NODES.
	MaxRange = 64 << 10
	// MaxHosts is how many hosts an expression may have, 16 times as many as a
	// cluster may.
	MaxHosts = 1 << 20
	// MaxName is how many bytes a host's name may have.
	MaxName = 255
)

// ErrTooMany is in the errors of expressions that would give more hosts than
// Slurm or this package takes.
var ErrTooMany = errors.New("too many hosts")

// ErrTooLong is in the errors of names of more than [MaxName] bytes. Slurm has no limit.
var ErrTooLong = errors.New("too long")

// ErrTooGreat is in the errors of numbers that no uint64 holds. Slurm takes the greatest
// uint64, 18446744073709551615, in their place.
var ErrTooGreat = errors.New("too great a number")

const separators = "\t, \n"

// Parse expands an expression. Its errors say which part is wrong, and what is
// allowed there.
func Parse(expression string) (List, error) {
	terms, hosts, err := parse(expression)
	if err == nil && hosts > MaxHosts {
		err = fmt.Errorf("%w: it gives %d, allowed are %d", ErrTooMany, hosts, MaxHosts)
	}
	if err != nil {
		return List{}, fmt.Errorf("cannot expand hostlist %s: %w", quote(expression), err)
	}
	var l List
	for _, t := range terms {
		t.expand(&l)
	}
	return l, nil
}

// Count is the number of hosts that an expression gives, duplicates counted,
// without expanding it: it may be more than [MaxHosts].
func Count(expression string) (uint64, error) {
	_, hosts, err := parse(expression)
	if err != nil {
		return 0, fmt.Errorf("cannot count hostlist %s: %w", quote(expression), err)
	}
	return hosts, nil
}

// parse takes no more memory than a small multiple of the expression's length.
func parse(expression string) (terms []term, hosts uint64, err error) {
	for word, rest := nextWord(expression); word != ""; word, rest = nextWord(rest) {
		t, err := parseTerm(word)
		if err != nil {
			return nil, 0, err
		}
		n, overflow := t.count()
		var carry uint64
		hosts, carry = bits.Add64(hosts, n, 0)
		if overflow || carry != 0 {
			return nil, 0, fmt.Errorf("%w: %s gives more than can be counted, allowed are %d", ErrTooMany, quote(word), MaxHosts)
		}
		terms = append(terms, t)
	}
	return terms, hosts, nil
}

// nextWord cuts the first word off. Separators between a bracket and the next
// closing one are part of the word.
func nextWord(s string) (word, rest string) {
	s = strings.TrimLeft(s, separators)
	end, seen := untilSeparator(s, 0), 0
	for {
		opened := strings.IndexByte(s[seen:end], '[')
		if opened < 0 {
			break
		}
		closed := strings.IndexByte(s[seen:], ']')
		if closed < opened { // Also where there is none.
			break
		}
		seen += closed + 1
		if seen > end {
			end = untilSeparator(s, seen)
		}
	}
	return s[:end], s[end:]
}

func untilSeparator(s string, from int) int {
	if i := strings.IndexAny(s[from:], separators); i >= 0 {
		return from + i
	}
	return len(s)
}

func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
