package slurmconf

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Infinite is what UNLIMITED and INFINITE are as numbers.
const Infinite = math.MaxUint64

// Uint is the value as Slurm reads numbers: decimal, octal behind 0 (010 is 8),
// hexadecimal behind 0x; UNLIMITED and INFINITE are [Infinite]. max is what the key's
// type holds: [math.MaxUint16] and so on. Numbers of more than 16 bits can end in k,
// for 1024 times as much; Slurm knows no other unit. The error is a [Finding].
func (p Pair) Uint(max uint64) (uint64, error) {
	switch {
	case strings.EqualFold(p.Value, "UNLIMITED"), strings.EqualFold(p.Value, "INFINITE"):
		return Infinite, nil
	case p.Value == "":
		return 0, nil
	}
	text := strings.TrimPrefix(strings.TrimLeft(p.Value, space), "+")
	unit := uint64(1)
	if short := strings.TrimRight(text, "kK"); max > math.MaxUint16 && len(text)-len(short) == 1 {
		text, unit = short, 1024
	}
	n, err := strconv.ParseUint(octal(text), 0, 64)
	n *= unit
	if errors.Is(err, strconv.ErrRange) || err == nil && n > max {
		return 0, p.wrong(fmt.Sprintf("at most %d", max))
	}
	if err != nil || strings.Contains(text, "_") {
		return 0, p.wrong("a number")
	}
	return n, nil
}

// octal makes numbers unreadable that begin with 0o or 0b: strtoul(3) knows no 0o, and 0b (C23) with newer C libraries only.
func octal(text string) string {
	if len(text) > 1 && text[0] == '0' && strings.IndexByte("bBoO", text[1]) >= 0 {
		return "?"
	}
	return text
}

// Bool is the value as Slurm reads switches. The error is a [Finding].
func (p Pair) Bool() (bool, error) {
	switch strings.ToLower(p.Value) {
	case "yes", "up", "true", "1":
		return true, nil
	case "no", "down", "false", "0":
		return false, nil
	}
	return false, p.wrong("yes, up, true or 1, or no, down, false or 0")
}

// List is what stands between the commas, without white space and what is empty.
func (p Pair) List() []string {
	var list []string
	for one := range strings.SplitSeq(p.Value, ",") {
		if one = strings.Trim(one, space); one != "" {
			list = append(list, one)
		}
	}
	return list
}

// wrong is the finding that the value is none of what is allowed.
func (p Pair) wrong(want string) Finding {
	return Finding{p.Position(), Error, "value", fmt.Sprintf("%s is %q", p.Key, p.Value), want}
}
