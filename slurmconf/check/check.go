// Package check says what is wrong with a configuration of Slurm beyond its
// grammar, which package slurmconf judges, and what a reconfigure cannot change.
//
//	set, findings := slurmconf.Read(src)
//	findings = append(findings, check.Set(set, check.Options{Version: "26.05"})...)
//
// An Error is what slurmctld, slurmd or slurmdbd of that version refuses, or what
// loses jobs. What Slurm takes is never an Error, however odd it is. The cases in
// testdata have what daemons of 24.11.5 and 26.05.5 did and said, and "make oracle"
// asks them again: slurmctld for slurm.conf, cgroup.conf, topology.conf and topology.yaml,
// slurmd -G for gres.conf, slurmd -D for acct_gather.conf, job_container.conf,
// namespace.yaml and plugstack.conf, and slurmdbd, up to its question for the database,
// for slurmdbd.conf.
//
// Not judged here, although Slurm does:
//
//   - files, users and devices of other machines, such as File=/dev/nvidia0, and
//     what a database knows.
//   - names of plugins that a cluster may have made itself: they are Warnings where
//     nothing of Slurm's is similar. With [Options.Controller] the files are looked at.
//   - a syntax that topology.conf has wrong, where topology.yaml is read in its place: that
//     is an Error, although no later Slurm than 24.11 reads the file.
//   - more than 65,536 nodes, for which slurmctld needs a minute: that is an Error, and no
//     case.
//   - what is beyond the bounds of slurmconf (a file of 4 MiB, 131,072 lines, 10,000
//     Includes, 500 of them within each other): Slurm takes that, and here it is an
//     Error, because nobody has read it.
package check

import (
	"fmt"
	"io/fs"
	"slices"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// Options is what is known of the place where the configuration is to be used. The
// zero value is the newest Slurm, and nothing else.
type Options struct {
	// Version is one of keys.Versions; empty is the newest of them.
	Version string
	// Controller is the file system of the host where slurmctld runs, to look for
	// the programs, plugins and keys that the configuration needs there. nil: they
	// are not looked for.
	Controller fs.FS
	// PluginDir is where the plugins of that host's build are, where slurm.conf
	// does not say it. Empty: they are not looked for.
	PluginDir string
	// ConfDir is where the configuration will be on that host, with the keys beside
	// it. Empty: /etc/slurm.
	ConfDir string
}

// Set checks all files of a configuration, and them against each other. The error
// is a Version that is not known.
func Set(set *slurmconf.Set, options Options) (slurmconf.Findings, error) {
	if options.Version == "" {
		options.Version = keys.Versions[len(keys.Versions)-1]
	}
	if !slices.Contains(keys.Versions, options.Version) {
		return nil, fmt.Errorf("cannot check a configuration of Slurm %s: known are %v", options.Version, keys.Versions)
	}
	c := &checker{Options: options, set: set, conf: set.Conf(slurmconf.SlurmConf)}
	c.inherit()
	for _, kind := range slurmconf.Kinds {
		c.keysAndValues(kind)
	}
	c.gresConf()
	c.acctGather()
	c.jobContainer()
	c.namespaces()
	c.slurmdbd()
	if c.conf != nil {
		c.singles()
		c.nodes()
		c.emptyValues()
		c.topology()
		c.topologies()
		c.qos()
		c.contradictions()
		if c.Controller != nil {
			c.containers()
			c.programs()
			c.plugins()
			c.key()
		}
		if !c.knowsPlugins() {
			c.pluginNames()
		}
	}
	c.tellMore()
	c.findings.Sort()
	set.Hide(c.findings)
	return slices.Compact(c.findings), nil
}

// checker collects what it finds.
type checker struct {
	Options
	set      *slurmconf.Set
	conf     *slurmconf.Conf // slurm.conf, nil if there is none
	findings slurmconf.Findings
	told     map[about]int
	// inherited are the values of DEFAULT lines that a record takes.
	inherited map[slurmconf.Pair]bool
	// topologyNames are those of topology.yaml, nil where they are not all known.
	topologyNames []string
}

// about is what findings are counted by.
type about struct {
	file     string
	severity slurmconf.Severity
}

// maxFindings is how many of each severity are told of one file.
const maxFindings = 100

func (c *checker) room(at slurmconf.Position, severity slurmconf.Severity) bool {
	return c.told[about{at.File, severity}] < maxFindings
}

// more counts one that is not told.
func (c *checker) more(at slurmconf.Position, severity slurmconf.Severity) {
	if c.told == nil {
		c.told = map[about]int{}
	}
	c.told[about{at.File, severity}]++
}

func (c *checker) find(f slurmconf.Finding) {
	if c.room(f.Position, f.Severity) {
		c.findings = append(c.findings, f)
	}
	c.more(f.Position, f.Severity)
}

func (c *checker) add(at slurmconf.Position, severity slurmconf.Severity, rule, what, want string) {
	c.find(slurmconf.Finding{Position: at, Severity: severity, Rule: rule, What: what, Want: want})
}

// tellMore says how many were not told.
func (c *checker) tellMore() {
	for of, n := range c.told {
		if n > maxFindings {
			what := fmt.Sprintf("%d more %ss are not told", n-maxFindings, of.severity)
			c.findings = append(c.findings, slurmconf.Finding{Position: slurmconf.Position{File: of.file}, Severity: of.severity, Rule: "too-many", What: what})
		}
	}
}

// start is where a file is spoken of as a whole.
func (c *checker) start() slurmconf.Position { return slurmconf.Position{File: c.conf.File.Name} }
