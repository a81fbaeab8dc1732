package slurmconf

// maxFindings bounds the findings of each severity for one file: a binary file
// has thousands.
const maxFindings = 100

// notes collects findings, up to a bound.
type notes struct {
	findings Findings
	counts   [Error + 1]int
}

// hasRoom says whether one more of this severity would be listed.
func (n *notes) hasRoom(s Severity) bool { return n.counts[s] <= maxFindings }

// add adds a finding. The first one too many stands for the rest.
func (n *notes) add(f Finding) {
	if !n.hasRoom(f.Severity) {
		return
	}
	if n.counts[f.Severity] == maxFindings {
		f.Rule, f.What, f.Want = "too-many", "more is wrong from here on, and is not listed", ""
	}
	n.counts[f.Severity]++
	n.findings = append(n.findings, f)
}
