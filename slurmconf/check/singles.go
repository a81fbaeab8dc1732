package check

import (
	"fmt"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// singles finds keys that are missing, and those that are set twice.
func (c *checker) singles() {
	if name, _ := c.conf.Get("ClusterName"); name.Value == "" {
		c.add(c.startOfConf(), slurmconf.Error, "missing-key", "there is no ClusterName", "ClusterName=name")
	}
	if len(c.conf.SlurmctldHosts()) == 0 {
		c.add(c.startOfConf(), slurmconf.Error, "missing-key", "there is no SlurmctldHost", "SlurmctldHost=name, or name(address)")
	}
	c.controllers()
	for _, kind := range slurmconf.Kinds {
		c.repeated(kind)
	}
}

// controllers judges SlurmctldHost (src/common/read_config.c, _parse_slurmctld_host and _load_slurmctld_host).
func (c *checker) controllers() {
	at := map[string]slurmconf.Position{}
	hosts := c.conf.All("SlurmctldHost")
	for _, pair := range hosts {
		host, address, open := strings.Cut(pair.Value, "(")
		if open != strings.Contains(pair.Value, ")") || open && strings.IndexByte(address, ')') != len(address)-1 {
			c.add(pair.Position(), slurmconf.Error, "controller", "SlurmctldHost is "+pair.Value, "name, or name(address)")
		}
		if strings.Contains(host, "$") {
			c.add(pair.Position(), slurmconf.Error, "controller", "SlurmctldHost is "+pair.Value+
				", which no host is called: Slurm puts no variables in", "name, or name(address)")
		}
		if earlier, ok := at[host]; ok {
			c.add(pair.Position(), slurmconf.Error, "controller",
				fmt.Sprintf("SlurmctldHost %s is there already, at %s", host, earlier), "one line for each host")
		}
		at[host] = pair.Line().Position()
	}
	for _, key := range []string{"ControlMachine", "ControlAddr", "BackupController", "BackupAddr"} {
		if pair, ok := c.conf.Get(key); ok && len(hosts) > 0 {
			c.ignored(pair, "SlurmctldHost")
		}
	}
}

// repeated finds keys of one value that are set twice: the last one counts, and Slurm logs it.
func (c *checker) repeated(kind slurmconf.Kind) {
	if kind == slurmconf.PlugstackConf || kind == slurmconf.JobContainerConf {
		return // Every line is a record.
	}
	first := map[string]slurmconf.Pair{}
	for line := range c.whole.Conf(kind).Lines() {
		for _, pair := range line.Pairs {
			key := strings.ToLower(pair.Key)
			if kind.IsList(key) {
				break
			}
			if earlier, ok := first[key]; ok {
				c.add(pair.Line().Position(), slurmconf.Warning, "repeated-key",
					fmt.Sprintf("%s is set already, at %s; the last value counts", pair.Key, earlier.Line().Position()), "it once")
			}
			first[key] = pair
		}
	}
}
