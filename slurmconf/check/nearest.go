package check

import (
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// nearest is the key that was probably meant: one that begins with the name, or that
// two mistakes, or in a short name one, make of it. Empty when there is none.
func nearest(name string, known []keys.Key) string {
	names := make([]string, len(known))
	for i, key := range known {
		names[i] = key.Name
	}
	return nearestOf(name, names)
}

func nearestOf(name string, known []string) string {
	name = strings.ToLower(name)
	best, least := "", min(len(name)/3, 2)+1
	for _, key := range known {
		if d := distance(name, strings.ToLower(key), least); d < least {
			best, least = key, d
		}
	}
	if best == "" && len(name) > 5 {
		best = beginning(name, known)
	}
	return best
}

// beginning is the only one that begins with the name, or with which that begins.
func beginning(name string, known []string) string {
	best := ""
	for _, key := range known {
		lower := strings.ToLower(key)
		if !strings.HasPrefix(lower, name) && (len(lower) < 4 || !strings.HasPrefix(name, lower)) {
			continue
		}
		if best != "" {
			return ""
		}
		best = key
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
