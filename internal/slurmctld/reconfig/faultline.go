package reconfig

import (
	"fmt"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// probableLine guesses the line that Slurm has complained of without naming it. It compares
// the words of the complaint with each line, and returns "path:line: ", or nothing. Of several
// lines that are equally alike it takes the last, which is the one that counts.
func probableLine(conf *slurmconf.Set, set *confset.Set, complaint string) string {
	complaint = strings.ToLower(complaint)
	if at, found := unnamed(conf, complaint); found {
		return fmt.Sprintf("%s:%d: ", source(set, at.File), at.Line)
	}
	words := wordsOf(complaint)
	var best slurmconf.Position
	most := 0
	for _, kind := range slurmconf.Kinds {
		for line := range conf.Conf(kind).Lines() {
			for _, pair := range line.Pairs {
				if alike := likeness(pair, complaint, words); alike >= max(most, 1) {
					most, best = alike, pair.Position()
				}
			}
		}
	}
	if most == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", source(set, best.File), best.Line)
}

// likeness is 3 for a key and its value, 2 for a key that is not known, 1 for a
// value that is not in every other line; 0 is none.
func likeness(pair slurmconf.Pair, complaint string, words map[string]bool) int {
	key, value := strings.ToLower(pair.Key), strings.ToLower(pair.Value)
	named := words[key] || words[strings.TrimSuffix(key, "name")] // "partition x" is PartitionName=x
	whole := words[value] || strings.ContainsAny(value, separators) && strings.Contains(complaint, value)
	switch {
	case named && whole:
		return 3
	case named && words["unrecognized"]:
		return 2
	case key == "slurmctldhost": // often named like the daemon that complains
		return 0
	case whole && len(value) > 3:
		return 1
	}
	return 0
}

const separators = " \t\n\"':;,()"

func wordsOf(text string) map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		words[strings.TrimSuffix(word, ".")] = true
	}
	return words
}

// unnamed is the line of a complaint that names nothing that stands in a file: a partition's or a
// node's Topology, and a number of more than 19 digits, of which Slurm makes another.
func unnamed(conf *slurmconf.Set, complaint string) (slurmconf.Position, bool) {
	switch {
	case strings.Contains(complaint, "requested topology configuration is not available"):
		return firstPair(conf, slurmconf.SlurmConf, func(p slurmconf.Pair) bool { return strings.EqualFold(p.Key, "Topology") })
	case strings.Contains(complaint, "18446744073709551615"):
		return firstPair(conf, slurmconf.TopologyConf, func(p slurmconf.Pair) bool {
			return strings.EqualFold(p.Key, "Switches") && digits(p.Value) >= 20
		})
	}
	return slurmconf.Position{}, false
}

func firstPair(conf *slurmconf.Set, kind slurmconf.Kind, is func(slurmconf.Pair) bool) (slurmconf.Position, bool) {
	for line := range conf.Conf(kind).Lines() {
		for _, pair := range line.Pairs {
			if is(pair) {
				return pair.Position(), true
			}
		}
	}
	return slurmconf.Position{}, false
}

// digits is how many the longest number of a text has.
func digits(text string) (most int) {
	n := 0
	for _, r := range text {
		if n++; r < '0' || r > '9' {
			n = 0
		}
		most = max(most, n)
	}
	return most
}

// wordless: slurmctld's new process has ended without a word, as by a signal. What scontrol says
// then names no line, so the edit's changes do.
func wordless(err error, changes []string) error {
	if !strings.Contains(err.Error(), "Unspecified error") || len(changes) == 0 {
		return err
	}
	return fmt.Errorf("slurmctld's new process has said nothing fatal, as if a signal had ended it (%w); %s", err,
		strings.Join(changes, "; "))
}
