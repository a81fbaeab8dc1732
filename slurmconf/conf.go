package slurmconf

import (
	"iter"
	"strings"
)

// Conf is one of Slurm's configuration files as Slurm reads it: its own lines,
// with those of included files in the place of each Include.
type Conf struct {
	// File is the file itself, without what it includes.
	File *File
	// lines are those with pairs, of all files.
	lines []*Line
	// byKey has for each key in lower case what it begins.
	byKey map[string][]Record
}

// Lines are the lines that set something, in the order in which Slurm reads
// them. A file that is included twice is read twice.
func (c *Conf) Lines() iter.Seq[*Line] {
	return func(yield func(*Line) bool) {
		if c == nil {
			return
		}
		for _, l := range c.lines {
			if !yield(l) {
				return
			}
		}
	}
}

// Get is what counts for a key of one value: the last one that is set. Of
// records it is the last one's name.
func (c *Conf) Get(key string) (Pair, bool) {
	all := c.Records(key)
	if len(all) == 0 {
		return Pair{}, false
	}
	return all[len(all)-1].Pairs[0], true
}

// All are all values that a key is given, in order.
func (c *Conf) All(key string) []Pair {
	var pairs []Pair
	for _, r := range c.Records(key) {
		pairs = append(pairs, r.Pairs[0])
	}
	return pairs
}

// Records are the lines that begin with key (NodeName, PartitionName …), in
// order and without the DEFAULT lines.
func (c *Conf) Records(key string) []Record {
	if c == nil {
		return nil
	}
	return c.byKey[strings.ToLower(key)]
}

// add adds a line, in Slurm's order.
func (c *Conf) add(l *Line, defaults map[string]*Defaults) {
	c.lines = append(c.lines, l)
	key := strings.ToLower(l.Pairs[0].Key)
	if hasDefaults(l.of.Kind, key) && strings.EqualFold(l.Pairs[0].Value, "DEFAULT") {
		defaults[key] = &Defaults{l, defaults[key]}
		return
	}
	c.byKey[key] = append(c.byKey[key], Record{l, defaults[key]})
}
