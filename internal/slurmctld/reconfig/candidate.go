package reconfig

import (
	"context"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// candidate is a set that is staged in dir to be checked.
type candidate struct {
	*confset.Set
	dir      string
	conf     *slurmconf.Set
	findings slurmconf.Findings
	// before is what slurmctld runs with, nil before its start.
	before *slurmconf.Set
}

// inspection is the result of a check that refuses nothing.
type inspection struct {
	// staged is where the set lies, changes is what it changes, and gone are the partitions
	// that it takes away, nodes the nodes. anew: some of it counts for a slurmctld that starts only.
	staged     string
	changes    []string
	gone       []slurmconf.Partition
	nodeChange nodeChange
	// enforces is the cluster's name if associations become required.
	enforces string
	anew     bool
}

// precheck is a check that begins before an edit has been left in peace for Debounce. Most
// edits are complete by then, so that their check is over when they are read.
type precheck struct {
	began time.Time
	// place is where the set lay that was live then.
	place  string
	set    *confset.Set
	cancel context.CancelFunc
	over   chan struct{}
	// inspection and err are its result, once over is closed.
	inspection
	err error
}

// removedPartitions are the partitions that a set takes away from the live one.
type removedPartitions struct {
	set *confset.Set
	// place is the directory of the set that was live then.
	place string
	gone  []slurmconf.Partition
	// nodeChange is what the set does to the nodes of slurm.conf.
	nodeChange nodeChange
	// enforces is the cluster's name where the set begins to require associations, empty otherwise.
	enforces string
}

// nodeChange is what a set does to the nodes that slurm.conf itself names.
type nodeChange struct {
	// removed are those that the live set names, and the next one does not. kept are those of the next one.
	removed, kept map[string]bool
}

// build is what is known of this container's Slurm: its version ("26.05") and where
// its plugins are, empty until a slurmctld runs that can be asked.
type build struct{ version, plugins string }

// gone are the partitions of one configuration that the next does not have. Their names
// are no hostlists, and case counts.
func gone(before, after *slurmconf.Set) []slurmconf.Partition {
	stays := map[string]bool{}
	for _, p := range after.Conf(slurmconf.SlurmConf).Partitions() {
		stays[p.Name()] = true
	}
	return slices.DeleteFunc(before.Conf(slurmconf.SlurmConf).Partitions(), func(p slurmconf.Partition) bool { return stays[p.Name()] })
}

// lines are the findings of a severity, one a line, under the names of the sources.
func lines(set *confset.Set, dir string, findings slurmconf.Findings, severity slurmconf.Severity) []string {
	var all []string
	for _, f := range findings {
		if f.Severity == severity {
			f.File = source(set, f.File)
			all = append(all, set.Named(dir, f.Error()))
		}
	}
	return all
}

func source(set *confset.Set, name string) string {
	if f, found := set.File(name); found {
		return f.Source
	}
	return name
}

// taken makes Warnings of keys that the table does not have and that Slurm's own parser has
// just taken: this Slurm was built with more of them.
func taken(conf *slurmconf.Set, findings slurmconf.Findings) slurmconf.Findings {
	for i, f := range findings {
		if f.Rule == "unknown-key" && conf.File(f.File).Kind == slurmconf.SlurmConf {
			findings[i].Severity = slurmconf.Warning
		}
	}
	return findings
}

// ofSlurmctld are the files that slurmctld and its nodes read. slurmdbd.conf is
// for another daemon, whatever is wrong with it.
var ofSlurmctld = slices.DeleteFunc(slices.Clone(slurmconf.Kinds), func(k slurmconf.Kind) bool { return k == slurmconf.SlurmdbdConf })
