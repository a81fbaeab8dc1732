package releases

import (
	"slices"
	"time"
)

// line is a release line of Slurm.
type line struct {
	name string
	// end is the last month in which SchedMD mends it.
	end string
	// from is the oldest line whose state, jobs and database it takes.
	from string
}

// lines are Slurm's, the oldest first: the table "Compatibility Window" of
// https://slurm.schedmd.com/upgrades.html (doc/html/upgrades.shtml of 284c3b95, 2026-08-20). For 26.05, 26.11
// and 27.05 it names a month that is a year behind the 18 months which it gives in the same cell: here are the 18
// months.
var lines = []line{
	{name: "23.11", end: "2025-05", from: "22.05"},
	{name: "24.05", end: "2025-11", from: "23.02"},
	{name: "24.11", end: "2026-05", from: "23.02"},
	{name: "25.05", end: "2026-11", from: "23.11"},
	{name: "25.11", end: "2027-05", from: "24.05"},
	{name: "26.05", end: "2027-11", from: "24.11"},
	{name: "26.11", end: "2028-05", from: "25.05"},
	{name: "27.05", end: "2028-11", from: "25.11"},
}

// Debian 13 has 24.11, and its security team mends it for three years from 2025-08-09 on
// (https://www.debian.org/releases/trixie/, https://wiki.debian.org/LTS).
const (
	trixieLine = "24.11"
	trixieEnd  = "2028-08"
)

// supporter says who mends a version, and until which month; both are empty for a line that is not known. What
// is older than the table is as its first line.
func supporter(v Version) (by, until string) {
	if v.Line == trixieLine && v.trixieUpdate() > 0 {
		return "Debian", trixieEnd
	}
	for _, l := range lines {
		if v.Line <= l.name {
			if v.Line < l.name && l.name != lines[0].name {
				return "", ""
			}
			return "SchedMD", l.end
		}
	}
	return "", ""
}

// isOver says whether a month such as "2026-05" has passed.
func isOver(month string, now time.Time) bool { return now.UTC().Format("2006-01") > month }

// Reachable are the lines that a line can be upgraded to in one step, the oldest first.
func Reachable(from string) (to []string) {
	for _, l := range lines {
		if l.name > from && l.from <= from {
			to = append(to, l.name)
		}
	}
	return to
}

// Path are the lines of an upgrade, with as few steps as can be, without the one that it begins with; nil where
// none leads there, as for a downgrade.
func Path(from, to string) (steps []string) {
	for from < to {
		next := slices.DeleteFunc(Reachable(from), func(l string) bool { return l > to })
		if len(next) == 0 {
			return nil
		}
		from = next[len(next)-1]
		steps = append(steps, from)
	}
	if from != to {
		return nil
	}
	return steps
}
