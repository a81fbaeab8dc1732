package main

import (
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/releases"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// severities are those of what is known against a Slurm. None is an Error: the configuration is none.
var severities = map[releases.Kind]slurmconf.Severity{
	releases.Security: slurmconf.Warning, releases.Support: slurmconf.Warning, releases.Defect: slurmconf.Info,
}

// aboutSlurm are the known faults of the Slurm that the configuration is for, under the name of the first argument. A
// release line alone tells of none: Debian may mend what its makers do not.
func (j judge) aboutSlurm(name string) (findings slurmconf.Findings) {
	if j.version.Patch < 0 {
		return nil
	}
	if name == "-" {
		name = "stdin"
	}
	report := releases.Judge(j.version, time.Now())
	for _, kind := range releases.Kinds {
		all := report.Names(kind)
		if len(all) == 0 {
			continue
		}
		found := slurmconf.Finding{
			Position: slurmconf.Position{File: name}, Severity: severities[kind], Rule: "slurm-" + string(kind),
			What: "Slurm " + report.Version + " has known faults: " + strings.Join(all, ", "),
		}
		if kind == releases.Support {
			found.What = "Slurm " + report.Version + " is mended by nobody"
		}
		if kind != releases.Defect {
			found.Want = report.Advice()
		}
		findings = append(findings, found)
	}
	return findings
}
