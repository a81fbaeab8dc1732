package check

import (
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// has says whether a list of words in slurm.conf has one of these, and where.
func (c *checker) has(key string, words ...string) (slurmconf.Pair, bool) {
	pair, ok := c.conf.Get(key)
	return pair, ok && slices.ContainsFunc(pair.List(), func(one string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, one) })
	})
}

// says whether a value has these letters in it, as Slurm looks for most options.
func (c *checker) says(key, option string) (slurmconf.Pair, bool) {
	pair, ok := c.conf.Get(key)
	return pair, ok && strings.Contains(strings.ToLower(pair.Value), strings.ToLower(option))
}

// number is a key's value, or the default where it is not set. A value that is none is a finding
// with all values.
func (c *checker) number(key string, otherwise int) int {
	if pair, ok := c.conf.Get(key); ok {
		if n, err := strconv.Atoi(pair.Value); err == nil && n >= 0 {
			return n
		}
	}
	return otherwise
}

// placeOf is where a key is set, otherwise another place.
func (c *checker) placeOf(key string, otherwise slurmconf.Position) slurmconf.Position {
	if pair, ok := c.conf.Get(key); ok {
		return pair.Position()
	}
	return otherwise
}

// isYes says whether a switch is on, as Slurm reads it.
func isYes(pair slurmconf.Pair) bool {
	yes, err := pair.Bool()
	return err == nil && yes
}
