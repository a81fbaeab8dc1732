package check

import (
	"fmt"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// qos: without slurmdbd there is no QOS, and since 25.11 slurmctld ends over a partition
// that names one (src/slurmctld/read_config.c, _build_single_partitionline_info).
func (c *checker) qos() {
	if c.conf.Accounted() {
		return
	}
	for _, p := range c.conf.Partitions() {
		for _, key := range []string{"AllowQos", "DenyQos", "QOS"} {
			if pair, ok := p.Get(key); ok {
				c.withoutQOS(p, key, pair)
			}
		}
	}
}

func (c *checker) withoutQOS(p slurmconf.Partition, key string, pair slurmconf.Pair) {
	severity, all := slurmconf.Error, strings.EqualFold(pair.Value, "ALL")
	switch {
	case key == "AllowQos" && all, c.Version < "25.11" && key == "QOS", c.Version >= "25.11" && key == "DenyQos" &&
		(all || pair.Value == ""), c.Version >= "25.11" && key == "AllowQos" && pair.Value == "":
		return
	case c.Version < "25.11":
		severity = slurmconf.Warning
	}
	c.add(pair.Position(), severity, "qos",
		fmt.Sprintf("partition %s has %s=%q, and without slurmdbd there is no QOS", p.Name(), key, pair.Value),
		"AccountingStorageType=accounting_storage/slurmdbd, or a partition without "+key)
}
