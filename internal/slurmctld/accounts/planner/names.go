package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// compareNames reports circles of parents.
func (r *reader) compareNames() {
	for _, k := range r.file.keys(Account) {
		seen := map[string]bool{}
		for name := k.Name; name != ""; name = r.file.value(Key{Kind: Account, Name: name}, "Parent") {
			if seen[name] {
				if name == k.Name {
					r.report(k, "is its own parent's parent", "a tree below root")
				}
				break
			}
			seen[name] = true
		}
	}
}

func (r *reader) report(k Key, what, want string) {
	r.findings = append(r.findings, r.file.finding(k, k.String()+" "+what, want))
}

func (f *File) finding(k Key, what, want string) slurmconf.Finding {
	return slurmconf.Finding{
		Position: slurmconf.Position{File: f.name, Line: f.Tables[k].Line},
		Severity: slurmconf.Error, Rule: "accounts", What: what, Want: want,
	}
}

// CheckNames reports names of the file that neither the file nor slurmdbd has. known are slurmdbd's TRES, as cpu and gres/gpu.
func (f *File) CheckNames(now Tables, known []string) slurmconf.Findings {
	var all slurmconf.Findings
	for k, e := range f.Tables {
		for name, value := range e.Values {
			a := find(k.Kind, name)
			switch {
			case a.form == tres:
				for one := range split(value) {
					if !slices.Contains(known, one) {
						all = append(all, f.finding(k, fmt.Sprintf("%s: %s: slurmdbd knows no TRES %q", k, name, one),
							"one of "+strings.Join(known, ", ")+"; AccountingStorageTRES of slurm.conf has others made"))
					}
				}
			case a.form == list && value != "":
				all = append(all, f.unknown(k, name, value, now)...)
			}
		}
		if k.Kind == Association && !f.has(Account, k.Account) && !now.has(Account, k.Account) {
			all = append(all, f.finding(k, fmt.Sprintf("user %s: there is no account %q", k.Name, k.Account),
				"one of the file or of slurmdbd"))
		}
	}
	all.Sort()
	return all
}

// unknown are the names of a list that are nobody's.
func (f *File) unknown(k Key, name, value string, now Tables) (all slurmconf.Findings) {
	kind := map[string]Kind{
		"QOS": QOS, "DefaultQOS": QOS, "Preempt": QOS, "Parent": Account, "DefaultAccount": Account, "Coordinators": User,
	}[name]
	if kind == "" || name == "DefaultAccount" { // which is one of the user's associations
		return nil
	}
	for one := range strings.SplitSeq(value, ",") {
		if !f.has(kind, one) && !now.has(kind, one) && one != "root" {
			all = append(all, f.finding(k, fmt.Sprintf("%s: %s: there is no %s %q", k, name, kind, one), "one of the file or of slurmdbd"))
		}
	}
	return all
}
