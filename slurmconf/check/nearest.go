package check

import (
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// nearest is the key that was probably meant: one that two mistakes, or in a short
// name one, make of it. Empty when there is none.
func nearest(name string, known []keys.Key) string {
	best, least := "", min(len(name)/3, 2)+1
	for _, key := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(key.Name), least); d < least {
			best, least = key.Name, d
		}
	}
	return best
}

// distance is the number of letters to put in, leave out or change (Levenshtein's),
// or most where it would be more.
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
