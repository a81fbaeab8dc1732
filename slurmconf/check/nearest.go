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

// distance is the number of letters to put in, leave out, change or swap with the next
// one (optimal string alignment), or most where it would be more.
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			changed := last[j]
			if a[i] != b[j] {
				changed++
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				changed = min(changed, before[j-1]+1)
			}
			row[j+1] = min(changed, row[j]+1, last[j+1]+1)
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
