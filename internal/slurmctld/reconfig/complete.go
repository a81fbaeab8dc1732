package reconfig

import (
	"slices"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// Complete is what slurmctld's agent writes behind a slurm.conf, with Slurm's user and the
// directory of its state as the images have them. elastic says whether there are elastic sets.
func Complete(conf *slurmconf.Conf, runDir string, elastic bool, sets []ElasticSet) string {
	o := Options{SlurmUser: "slurm", StateDir: "/var/spool/slurmctld", RunDir: runDir}
	if elastic {
		o.sets = new(slices.Clone(sets))
	}
	return o.rendered(conf)
}

// DefaultCgroupConf is the cgroup.conf of a configuration that has none.
func DefaultCgroupConf() string { return defaultCgroupConf }
