// Package check says what is wrong with a configuration of Slurm beyond its
// grammar, which package slurmconf judges, and what a reconfigure cannot change.
//
//	set, findings := slurmconf.Read(src)
//	findings = append(findings, check.Set(set, check.Options{Version: "26.05"})...)
//
// An Error is what slurmctld or slurmd of that version refuses, or what loses jobs.
// For slurm.conf, cgroup.conf and topology.conf that was tried with slurmctld
// 24.11.5 and 26.05.5; gres.conf and slurmdbd.conf are by Slurm's source. What Slurm
// takes is never an Error, however odd it is.
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
	for _, kind := range slurmconf.Kinds {
		c.keysAndValues(kind)
	}
	if c.conf != nil {
		c.singles()
		c.nodes()
		c.topology()
		c.contradictions()
		if c.Controller != nil {
			c.programs()
			c.plugins()
			c.key()
		}
	}
	c.findings.Sort()
	return slices.Compact(c.findings), nil
}

// checker collects what it finds.
type checker struct {
	Options
	set      *slurmconf.Set
	conf     *slurmconf.Conf // slurm.conf, nil if there is none
	findings slurmconf.Findings
}

func (c *checker) add(at slurmconf.Position, severity slurmconf.Severity, rule, what, want string) {
	c.findings = append(c.findings, slurmconf.Finding{Position: at, Severity: severity, Rule: rule, What: what, Want: want})
}

// start is where a file is spoken of as a whole.
func (c *checker) start() slurmconf.Position { return slurmconf.Position{File: c.conf.File.Name} }
