package reconfig

import (
	"fmt"
	"strings"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// probableLine guesses the line that Slurm has complained of without naming it. It compares
// the words of the complaint with each line, and returns "path:line: ", or nothing. Of several
// lines that are equally alike it takes the last, which is the one that counts.
func probableLine(conf *slurmconf.Set, set *confset.Set, complaint string) string {
	complaint = strings.ToLower(complaint)
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
