package check

import (
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// inherit notes the values of DEFAULT lines that a node or a partition takes. Of strings
// Slurm judges no others (src/common/read_config.c, _parse_nodename and
// _parse_partitionname).
func (c *checker) inherit() {
	c.inherited = map[slurmconf.Pair]bool{}
	for _, key := range []string{"NodeName", "PartitionName"} {
		for _, r := range c.conf.Records(key) {
			for d := r.Defaults; d != nil; d = d.Earlier {
				c.inheritFrom(r, d)
			}
		}
	}
}

func (c *checker) inheritFrom(r slurmconf.Record, d *slurmconf.Defaults) {
	for _, pair := range d.Pairs[1:] {
		if c.inherited[pair] || ofItsLine(r, pair.Key) {
			continue
		}
		if counts, _ := r.Get(pair.Key); counts == pair {
			c.inherited[pair] = true
		}
	}
}

// ofItsLine: these a partition has from its own line only.
func ofItsLine(r slurmconf.Record, key string) bool {
	return strings.EqualFold(r.Pairs[0].Key, "PartitionName") && oneOf("SelectTypeParameters", "SuspendTime")(key)
}

// isUnused: the value stands on a DEFAULT line, and nobody takes it.
func (c *checker) isUnused(record string, pair slurmconf.Pair) bool {
	first := pair.Line().Pairs[0]
	return oneOf("NodeName", "PartitionName")(record) && strings.EqualFold(first.Value, "DEFAULT") && !c.inherited[pair]
}
