package slurmconf

// maxFindings is how many of each severity are told of one file: a binary file
// has thousands.
const maxFindings = 100

// notes collects findings, up to a bound.
type notes struct {
	findings Findings
	count    [Error + 1]int
}

// room says whether one more of this severity would be told.
func (n *notes) room(s Severity) bool { return n.count[s] <= maxFindings }

// add adds a finding. The first one too many stands for the rest.
func (n *notes) add(f Finding) {
	if !n.room(f.Severity) {
		return
	}
	if n.count[f.Severity] == maxFindings {
		f.Rule, f.What, f.Want = "too-many", "more is wrong from here on, and is not told", ""
	}
	n.count[f.Severity]++
	n.findings = append(n.findings, f)
}
