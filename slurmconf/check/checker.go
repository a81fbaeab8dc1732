package check

import (
	"fmt"
	"io/fs"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// Options is what is known of the place where the configuration is to be used. The
// zero value is the newest Slurm, and nothing else.
type Options struct {
	// Version is one of keys.Versions; empty is the newest of them.
	Version string
	// SlurmctldRoot is the file system of the host where slurmctld runs, to look for
	// the programs, plugins and keys that the configuration needs there. nil: they
	// are not looked for.
	SlurmctldRoot fs.FS
	// PluginDir is where the plugins of that host's build are, where slurm.conf
	// does not say it. Empty: they are not looked for.
	PluginDir string
	// ConfDir is where the configuration will be on that host, with the keys beside
	// it. Empty: /etc/slurm.
	ConfDir string
}

// checker collects what it finds.
type checker struct {
	Options
	whole    *slurmconf.Set
	conf     *slurmconf.Conf // slurm.conf, nil if there is none
	findings slurmconf.Findings
	found    map[about]int // how many findings there are, listed or not
	// inherited are the values of DEFAULT lines that a record takes.
	inherited map[slurmconf.Pair]bool
	// topologyNames are those of topology.yaml, nil where they are not all known.
	topologyNames []string
}

// about is the key by which findings are counted: maxFindings bounds each.
type about struct {
	file     string
	severity slurmconf.Severity
}

// maxFindings bounds the findings of each severity that are listed for one file.
const maxFindings = 100

func (c *checker) hasRoom(at slurmconf.Position, severity slurmconf.Severity) bool {
	return c.found[about{at.File, severity}] < maxFindings
}

// countFinding counts one finding, whether it is listed or not.
func (c *checker) countFinding(at slurmconf.Position, severity slurmconf.Severity) {
	if c.found == nil {
		c.found = map[about]int{}
	}
	c.found[about{at.File, severity}]++
}

func (c *checker) find(f slurmconf.Finding) {
	if c.hasRoom(f.Position, f.Severity) {
		c.findings = append(c.findings, f)
	}
	c.countFinding(f.Position, f.Severity)
}

func (c *checker) add(at slurmconf.Position, severity slurmconf.Severity, rule, what, want string) {
	c.find(slurmconf.Finding{Position: at, Severity: severity, Rule: rule, What: what, Want: want})
}

// addOmitted adds how many findings of a file were not listed.
func (c *checker) addOmitted() {
	for of, n := range c.found {
		if n > maxFindings {
			what := fmt.Sprintf("%d more %ss are not listed", n-maxFindings, of.severity)
			c.findings = append(c.findings, slurmconf.Finding{
				Position: slurmconf.Position{File: of.file},
				Severity: of.severity, Rule: "too-many", What: what,
			})
		}
	}
}

// startOfConf is where a file is spoken of as a whole.
func (c *checker) startOfConf() slurmconf.Position { return slurmconf.Position{File: c.conf.File.Name} }
