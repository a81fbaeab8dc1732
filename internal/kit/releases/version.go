package releases

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version is a version of Slurm.
type Version struct {
	// Line is the release line, by year and month: "24.11". It is empty in the zero Version.
	Line string
	// Patch is the last number of "24.11.5", and -1 where only the line is known.
	Patch int
	// Revision is what a distribution or a pre-release has behind the dash: "4+deb13u1", "0rc1".
	Revision string
}

// longest is more than any version has.
const longest = 64

// Parse reads "24.11", "24.11.5" and "24.11.5-4+deb13u1".
func Parse(text string) (Version, error) {
	number, revision, dashed := strings.Cut(text, "-")
	parts := strings.Split(number, ".")
	fault := fmt.Errorf("cannot read %.64q as a version of Slurm, such as 26.05 or 26.05.5-1", text)
	if len(text) > longest || len(parts) < 2 || len(parts) > 3 || !isTwoDigits(parts[0]) || !isTwoDigits(parts[1]) {
		return Version{}, fault
	}
	v := Version{Line: parts[0] + "." + parts[1], Patch: -1, Revision: revision}
	if len(parts) == 3 {
		patch, err := strconv.ParseUint(parts[2], 10, 16)
		if err != nil || parts[2] != strconv.FormatUint(patch, 10) {
			return Version{}, fault
		}
		v.Patch = int(patch)
	}
	if dashed && (v.Patch < 0 || revision == "" || strings.Trim(revision, revisionBytes) != "") {
		return Version{}, fault
	}
	return v, nil
}

// revisionBytes may stand in a revision (deb-version(7)).
const revisionBytes = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+~-"

func isTwoDigits(s string) bool {
	return len(s) == 2 && strings.Trim(s, "0123456789") == ""
}

func (v Version) String() string {
	if v.Line == "" || v.Patch < 0 {
		return v.Line
	}
	text := v.Line + "." + strconv.Itoa(v.Patch)
	if v.Revision != "" {
		text += "-" + v.Revision
	}
	return text
}

// Release is the version without the revision: "24.11.5".
func (v Version) Release() string { return Version{Line: v.Line, Patch: v.Patch}.String() }

// isBefore compares the releases, whatever the revisions are.
func (v Version) isBefore(other Version) bool {
	return cmp.Or(strings.Compare(v.Line, other.Line), cmp.Compare(v.Patch, other.Patch)) < 0
}

// trixieUpdate is the number of the security update of Debian 13 that the revision names, 0 for none: 1 of
// "4+deb13u1", and of "4+deb13u1~bpo12+1", which is a rebuild of it.
func (v Version) trixieUpdate() int {
	_, number, _ := strings.Cut(v.Revision, "+deb13u")
	digits := len(number) - len(strings.TrimLeft(number, "0123456789"))
	n, err := strconv.Atoi(number[:digits])
	if err != nil {
		return 0
	}
	return n
}
