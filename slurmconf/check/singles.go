package check

import (
	"fmt"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// singles tells of keys that are missing, and of those that are set twice.
func (c *checker) singles() {
	if _, ok := c.conf.Get("ClusterName"); !ok {
		c.add(c.start(), slurmconf.Error, "missing-key", "there is no ClusterName", "ClusterName=name")
	}
	if len(c.conf.Controllers()) == 0 {
		c.add(c.start(), slurmconf.Error, "missing-key", "there is no SlurmctldHost", "SlurmctldHost=name, or name(address)")
	}
	for _, kind := range slurmconf.Kinds {
		c.repeated(kind)
	}
}

// repeated: the last value counts, and Slurm's log tells of it.
func (c *checker) repeated(kind slurmconf.Kind) {
	if kind == slurmconf.PlugstackConf || kind == slurmconf.JobContainerConf {
		return // Every line is a record.
	}
	first := map[string]slurmconf.Pair{}
	for line := range c.set.Conf(kind).Lines() {
		for _, pair := range line.Pairs {
			key := strings.ToLower(pair.Key)
			if kind.IsList(key) {
				break
			}
			if earlier, ok := first[key]; ok {
				c.add(pair.Line().Position(), slurmconf.Warning, "repeated-key", fmt.Sprintf("%s is set already, at %s; the last value counts", pair.Key, earlier.Line().Position()), "it once")
			}
			first[key] = pair
		}
	}
}
