// Package releases knows Slurm's releases: until when each is supported, which known faults a
// version has, and which version it can be upgraded to. It is pure: a version and the time go in,
// and what is known of them comes out. The tables are in lines.go and advisories.go, each row with
// its source; docs/run/versions.md is the page for people.
//
// A version is judged by what its makers or Debian have published. A rebuild of another
// distribution may have a fix that its version does not show: it is judged by its version alone.
package releases

import (
	"slices"
	"strings"
	"time"
)

// Report is what is known of one version of Slurm.
type Report struct {
	// Version is as the package or the program says it: "24.11.5-4+deb13u1", "26.05.5".
	Version string `json:"version"`
	// MendedBy is who mends this version, and MendedUntil the last month: "2027-11". Both are empty where
	// nobody does, or the line is not known here.
	MendedBy    string `json:"mended_by,omitempty"`
	MendedUntil string `json:"mended_until,omitempty"`
	// Advisories are the known faults of the version, and the end of its support.
	Advisories []Advisory `json:"advisories,omitempty"`
	// Upgrades are the later lines that an upgrade reaches in one step, the oldest first.
	Upgrades []string `json:"upgrades,omitempty"`
}

// Judge says what is known of a version at a time. The zero Version has an empty Report.
func Judge(v Version, now time.Time) Report {
	if v.Line == "" {
		return Report{}
	}
	r := Report{Version: v.String(), Upgrades: Reachable(v.Line)}
	for _, a := range advisories {
		if a.affects(v) {
			r.Advisories = append(r.Advisories, a)
		}
	}
	by, until := supporter(v)
	switch {
	case until == "":
	case isOver(until, now):
		r.Advisories = append(r.Advisories, Advisory{
			Name: "end-of-support", Kind: Support, What: by + " no longer mends Slurm " + v.Line,
		})
	default:
		r.MendedBy, r.MendedUntil = by, until
	}
	return r
}

// Names are the advisories of a kind, by their names.
func (r Report) Names(kind Kind) (names []string) {
	for _, a := range r.Advisories {
		if a.Kind == kind {
			names = append(names, a.Name)
		}
	}
	return names
}

// Advice says what to install in place of the version, empty where nothing is known against it.
func (r Report) Advice() string {
	if !slices.ContainsFunc(r.Advisories, func(a Advisory) bool { return a.Kind != Defect }) {
		return ""
	}
	v, _ := Parse(r.Version)
	best := newestFixed()
	if v.Line == best.Line {
		return best.String()
	}
	steps := Path(v.Line, best.Line)
	if len(steps) == 0 {
		return best.String() + ", and Slurm's page of upgrades for the way there"
	}
	steps[len(steps)-1] = best.String()
	return strings.Join(steps, ", then ")
}

// Rows are the lines of "slurmlet status".
func (r Report) Rows(row func(name, format string, args ...any)) {
	if r.MendedBy == "" {
		row("Slurm", "%s", r.Version)
	} else {
		row("Slurm", "%s, which %s mends until %s", r.Version, r.MendedBy, r.MendedUntil)
	}
	for _, a := range r.Advisories {
		row("Advisory", "%s", a)
	}
	if advice := r.Advice(); advice != "" {
		row("Upgrade", "to %s", advice)
	}
	if len(r.Upgrades) > 0 {
		row("Upgrades", "one step reaches %s", strings.Join(r.Upgrades, ", "))
	}
}
