package commands

import (
	"cmp"
	"slices"
	"strings"
)

// didYouMean names those of the names that are most like a word; empty if none is.
func didYouMean(word string, names []string) string {
	type near struct {
		name     string
		distance int
	}
	var all []near
	for _, name := range names {
		d := distance(word, name)
		if d <= max(1, len(word)/4) || strings.HasSuffix(name, "-"+word) || strings.HasPrefix(name, word) {
			all = append(all, near{name, d})
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.SortFunc(all, func(a, b near) int { return cmp.Or(a.distance-b.distance, strings.Compare(a.name, b.name)) })
	text := make([]string, 0, 3)
	for _, one := range all[:min(3, len(all))] {
		text = append(text, one.name)
	}
	return " Did you mean " + strings.Join(text, ", ") + "?"
}

// distance is how many letters must be changed, put in or taken out (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
