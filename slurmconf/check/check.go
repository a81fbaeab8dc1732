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
//     nothing of Slurm's is similar. With [Options.SlurmctldRoot] the files are looked at.
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
	"slices"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// Set checks all files of a configuration, and them against each other. The error
// is a Version that is not known.
func Set(set *slurmconf.Set, options Options) (slurmconf.Findings, error) {
	if options.Version == "" {
		options.Version = keys.Versions[len(keys.Versions)-1]
	}
	if !slices.Contains(keys.Versions, options.Version) {
		return nil, fmt.Errorf("cannot check a configuration of Slurm %s: known are %v", options.Version, keys.Versions)
	}
	c := &checker{Options: options, whole: set, conf: set.Conf(slurmconf.SlurmConf)}
	c.inherit()
	for _, kind := range slurmconf.Kinds {
		c.keysAndValues(kind)
	}
	c.gresConf()
	c.acctGather()
	c.jobContainer()
	c.namespaces()
	c.plugstack()
	c.runtime()
	c.slurmdbd()
	if c.conf != nil {
		c.singles()
		c.nodes()
		c.emptyValues()
		c.topology()
		c.topologies()
		c.qos()
		c.contradictions()
		if c.SlurmctldRoot != nil {
			c.containers()
			c.programs()
			c.plugins()
			c.key()
		}
		if !c.knowsPlugins() {
			c.pluginNames()
		}
	}
	c.addOmitted()
	c.findings.Sort()
	set.Hide(c.findings)
	return slices.Compact(c.findings), nil
}
