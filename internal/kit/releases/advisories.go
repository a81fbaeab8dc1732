package releases

import "strings"

// Kind says what sort of fault an advisory tells of.
type Kind string

// The kinds. The alerts of the chart ask for Security and Support; the agent lives with each Defect.
const (
	Security Kind = "security"
	Defect   Kind = "defect"
	Support  Kind = "support"
)

// Kinds are all of them.
var Kinds = []Kind{Security, Defect, Support}

// Advisory is a fault that some versions of Slurm have.
type Advisory struct {
	// Name is the number of a CVE, or a name of this table's.
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// What is what the fault does, as a sentence without an end.
	What string `json:"what"`
	// Fixed are the first versions without it, one for each line, the oldest first. Lines between and after
	// them have it not, and older ones have it without a fix.
	Fixed []string `json:"fixed,omitempty"`
	// update is that of Debian 13 which mends it in 24.11.5, 0 for none.
	update int
	// only is the one line in which it is known, where nobody knows of others; empty for all before Fixed.
	only string
}

// String is the advisory in one line.
func (a Advisory) String() string {
	text := a.Name + ": " + a.What
	if len(a.Fixed) > 0 {
		text += " (mended in " + strings.Join(a.Fixed, ", ") + ")"
	}
	return text
}

func (a Advisory) affects(v Version) bool {
	if v.Patch < 0 || a.update > 0 && v.trixieUpdate() >= a.update {
		return false
	}
	if a.only != "" {
		return v.Line == a.only
	}
	last := Version{}
	for _, text := range a.Fixed {
		if fixed, _ := Parse(text); fixed.Revision == "" {
			if fixed.Line == v.Line {
				return v.isBefore(fixed)
			}
			last = fixed
		}
	}
	return v.isBefore(last)
}

// september are the versions with the fixes of 2026-09-02, and Debian's of 2026-09-07.
var september = []string{"24.11.5-4+deb13u1", "25.05.9", "25.11.8", "26.05.4"}

// advisories are the known faults.
//
// The CVEs and their sentences are from SchedMD's notes of 25.05.9, 25.11.8 and 26.05.4 (2026-09-02,
// https://github.com/SchedMD/slurm/releases/tag/slurm-25-11-8-1) and from changelog.Debian.gz of
// slurm-wlm 24.11.5-4+deb13u1 (2026-09-07), which mends CVE-2026-65168 without its number. 26.05.4's notes leave
// that number out, too; "all Slurm versions prior to 25.05.9, 25.11.8, and 26.05.4 are impacted"
// (https://github.com/aws/aws-parallelcluster/issues/7601).
//
// task-launch-credential and step-io-overflow are from the notes of 26.05.5 (2026-10-13,
// https://github.com/SchedMD/slurm/releases). _check_job_credential of slurm-24.11 (defaf214), 25.05 (f531c7ee) and
// 25.11 (fdcff640) does not compare the users either, and none of the three checks a length in io_hdr.c.
//
// slurmctld-reconfigure-hang is from the CHANGELOG of 25.05.8, 25.11.6 and 26.05.0rc1, and this project has met it
// on 24.11.5 (decision 281). slurmd-reconfigure-hang was met on 24.11.5 and not on 26.05.5 (decision 268); SchedMD's
// changelogs do not name it, and 25.05 and 25.11 were not tried.
var advisories = []Advisory{
	{
		Name: "CVE-2026-65107", Kind: Security, Fixed: september, update: 1,
		What: "sbcast sends shared objects without a check of the credential, and a file's name can crash slurmd",
	},
	{
		Name: "CVE-2026-65108", Kind: Security, Fixed: september, update: 1,
		What: "a long SPANK variable in a job's environment overflows slurmstepd's stack",
	},
	{
		Name: "CVE-2026-65109", Kind: Security, Fixed: september, update: 1,
		What: "slurmstepd deletes files outside of a container's spool directory",
	},
	{
		Name: "CVE-2026-65138", Kind: Security, Fixed: september, update: 1,
		What: "a malformed forwarded message has slurmd read beyond its heap, or crash",
	},
	{
		Name: "CVE-2026-65139", Kind: Security, Fixed: september, update: 1,
		What: "names of clusters and ids go into slurmdbd's SQL unchecked",
	},
	{
		Name: "CVE-2026-65140", Kind: Security, Fixed: september, update: 1,
		What: "an operator can change the accounts of administrators",
	},
	{
		Name: "CVE-2026-65165", Kind: Security, Fixed: september, update: 1,
		What: "a step with an arbitrary distribution can have another number of nodes than its list",
	},
	{
		Name: "CVE-2026-65168", Kind: Security, Fixed: september, update: 1,
		What: "an invalid request on a step's socket can crash slurmstepd",
	},
	{
		Name: "task-launch-credential", Kind: Security, Fixed: []string{"26.05.5"},
		What: "slurmd launches tasks for a user with the credential that another user was given",
	},
	{
		Name: "step-io-overflow", Kind: Security, Fixed: []string{"26.05.5"},
		What: "an invalid length in a step's I/O overflows the heap of srun, sattach and slurmstepd",
	},
	{
		Name: "slurmctld-reconfigure-hang", Kind: Defect, Fixed: []string{"25.05.8", "25.11.6", "26.05.0"},
		What: "a client that says nothing can hold up a reconfigure of slurmctld for ever",
	},
	{
		Name: "slurmd-reconfigure-hang", Kind: Defect, only: "24.11",
		What: "slurmd can hang in a reconfigure while it ends a job",
	},
}

// newestFixed is the oldest version that has none of the faults, in the newest line that any of them names.
func newestFixed() (best Version) {
	for _, a := range advisories {
		for _, text := range a.Fixed {
			if fixed, _ := Parse(text); best.isBefore(fixed) {
				best = fixed
			}
		}
	}
	return best
}
