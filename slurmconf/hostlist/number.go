package hostlist

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxNumbers is how many numbers and ranges a bracket may have: Slurm's daemons
// end when they see more.
const maxNumbers = 256 << 10

// parseNumbers reads what is in a bracket: "1,3-5,010".
func parseNumbers(inside string) ([]numbers, error) {
	n := 1 + strings.Count(inside, ",")
	if n > maxNumbers {
		return nil, fmt.Errorf("%w: a bracket has %d ranges, allowed are %d", ErrTooMany, n, maxNumbers)
	}
	all := make([]numbers, 0, n)
	for text := range strings.SplitSeq(inside, ",") {
		r, err := parseRange(text)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// parseRange reads a number or a range. Slurm reads them with C's strtoul: "1-",
// "+1" and "1a-3" are taken, and everything before the dash counts as width.
func parseRange(text string) (numbers, error) {
	low, high, _ := strings.Cut(text, "-")
	lo, rest, err := parseNumber(low)
	hi, highErr := lo, error(nil)
	if high != "" {
		hi, rest, highErr = parseNumber(high)
	}
	err = cmp.Or(err, highErr)
	switch {
	case strings.Contains(text, "x"), rest != "", errors.Is(err, strconv.ErrSyntax):
		return numbers{}, fmt.Errorf("%s is not a number or a range: allowed are 5, 1-5, 001-010 and lists of them", quote(text))
	case err != nil:
		return numbers{}, fmt.Errorf("%w: %s, allowed are numbers up to %d", ErrTooGreat, quote(text), uint64(math.MaxUint64))
	}
	if lo > hi {
		return numbers{}, fmt.Errorf("%s begins with its greater number", quote(text))
	}
	if hi-lo >= MaxRange {
		return numbers{}, fmt.Errorf("%w: the range %s is of more than %d", ErrTooMany, quote(text), MaxRange)
	}
	return numbers{lo, hi, len(low)}, nil
}

// parseNumber reads a number as strtoul does, and returns what follows it. Its errors are strconv's; of a number that is
// too large strtoul would take another.
func parseNumber(s string) (number uint64, rest string, err error) {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	s = strings.TrimPrefix(s, "+")
	end := 0
	for end < len(s) && isDigit(s[end]) {
		end++
	}
	number, err = strconv.ParseUint(s[:end], 10, 64)
	return number, s[end:], err
}
