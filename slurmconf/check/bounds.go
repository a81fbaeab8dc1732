package check

import (
	"fmt"
	"math"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// bound is the least and the most that Slurm takes for a number, which is of the
// right type (src/common/read_config.c, src/interfaces/cgroup.c).
type bound struct {
	least, most uint64 // most 0: none
	severity    slurmconf.Severity
}

var boundsOf = map[slurmconf.Kind]map[string]bound{
	slurmconf.SlurmConf: {
		"firstjobid":           {least: 1, severity: slurmconf.Error},
		"maxdbdmsgs":           {least: 10000, severity: slurmconf.Error},
		"maxjobcount":          {least: 1, severity: slurmconf.Error},
		"maxstepcount":         {least: 1, severity: slurmconf.Error},
		"propagateprioprocess": {most: 2, severity: slurmconf.Error},
		"maxarraysize":         {most: 4000001, severity: slurmconf.Warning},
		"maxjobid":             {most: maxJobID, severity: slurmconf.Warning},
		"messagetimeout":       {most: 100, severity: slurmconf.Warning},
		"minjobage":            {least: 2, severity: slurmconf.Warning},
		"schedulertimeslice":   {least: 5, severity: slurmconf.Warning},
		"treewidth":            {least: 1, severity: slurmconf.Warning},

		"nodename boards":          {least: 1, severity: slurmconf.Warning},
		"nodename corespersocket":  {least: 1, severity: slurmconf.Warning},
		"nodename cpus":            {least: 1, severity: slurmconf.Warning},
		"nodename sockets":         {least: 1, severity: slurmconf.Warning},
		"nodename socketsperboard": {least: 1, severity: slurmconf.Warning},
		"nodename threadspercore":  {least: 1, severity: slurmconf.Warning},
	},
	slurmconf.CgroupConf: {"memoryswappiness": {most: 100, severity: slurmconf.Warning}},
}

// maxJobID is Slurm's MAX_JOB_ID.
const maxJobID = 0x03ffffff

func (c *checker) checkBounds(kind slurmconf.Kind, name string, pair slurmconf.Pair) {
	b, ok := boundsOf[kind][name]
	if !ok {
		return
	}
	n, err := pair.Uint(math.MaxUint64)
	switch {
	case err != nil:
	case n < b.least:
		c.add(pair.Position(), b.severity, "value", fmt.Sprintf("%s is %q", pair.Key, pair.Value), fmt.Sprintf("at least %d", b.least))
	case b.most > 0 && n > b.most:
		c.add(pair.Position(), b.severity, "value", fmt.Sprintf("%s is %q", pair.Key, pair.Value), fmt.Sprintf("at most %d", b.most))
	}
}
