package check

import (
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
	"github.com/slurmlet/slurmlet/slurmconf/topology"
)

// gathers are the plugins that know keys of acct_gather.conf, by how these begin.
var gathers = []struct {
	prefix, key string
	plugins     []string
}{
	{"EnergyIPMI", "AcctGatherEnergyType", []string{"acct_gather_energy/ipmi", "acct_gather_energy/xcc"}},
	{"EnergyXCC", "AcctGatherEnergyType", []string{"acct_gather_energy/xcc"}},
	{"Infiniband", "AcctGatherInterconnectType", []string{"acct_gather_interconnect/ofed"}},
	{"Interconnect", "AcctGatherInterconnectType", []string{"acct_gather_interconnect/ofed"}},
	{"ProfileHDF5", "AcctGatherProfileType", []string{"acct_gather_profile/hdf5"}},
	{"ProfileInfluxDB", "AcctGatherProfileType", []string{"acct_gather_profile/influxdb"}},
	{"Sysfs", "AcctGatherInterconnectType", []string{"acct_gather_interconnect/sysfs"}},
}

// acctGather: slurmctld and slurmd end over a key of a plugin that they do not load
// (src/interfaces/acct_gather.c).
func (c *checker) acctGather() {
	if c.conf == nil {
		return
	}
	for line := range c.whole.Conf(slurmconf.AcctGatherConf).Lines() {
		pair := line.Pairs[0]
		if _, known := keys.Lookup(c.Version, slurmconf.AcctGatherConf, "", pair.Key); !known {
			continue // The check of all keys has the finding.
		}
		for _, g := range gathers {
			if !strings.HasPrefix(strings.ToLower(pair.Key), strings.ToLower(g.prefix)) {
				continue
			}
			if _, loaded := c.has(g.key, g.plugins...); !loaded {
				c.add(line.Position(), c.severityOf(slurmconf.AcctGatherConf), "plugin-key",
					pair.Key+" is a key of a plugin that slurm.conf does not load", g.key+"="+strings.Join(g.plugins, " or "))
			}
		}
	}
}

// gathersOwn: the cluster has a plugin of its own, whose keys nobody knows here.
func (c *checker) gathersOwn() bool {
	for _, k := range pluginKeys {
		pair, _ := c.conf.Get(k.key)
		if !strings.HasPrefix(k.kind, "acct_gather_") || pair.Value == "" || c.noPlugin(k, pair.Value) {
			continue
		}
		for _, one := range pair.List() {
			name := strings.TrimPrefix(one, k.kind+"/")
			if !oneOf(keys.Plugins(c.Version, k.kind)...)(name) {
				return true
			}
		}
	}
	return false
}

// usesTmpfs: slurmd reads job_container.conf.
func (c *checker) usesTmpfs() (slurmconf.Pair, bool) {
	for _, key := range []string{"JobContainerType", "NamespaceType"} {
		if pair, ok := c.says(key, "tmpfs"); ok {
			return pair, true
		}
	}
	return slurmconf.Pair{}, false
}

// jobContainer: slurmd does not start without the file.
func (c *checker) jobContainer() {
	if pair, ok := c.usesTmpfs(); ok && c.whole.Conf(slurmconf.JobContainerConf) == nil {
		c.add(pair.Position(), slurmconf.Error, "missing-file", pair.Key+" is "+pair.Value+
			", and there is no job_container.conf", "job_container.conf with BasePath beside slurm.conf")
	}
}

// namespaces: slurmd ends over a namespace.yaml that it cannot read.
func (c *checker) namespaces() {
	file := c.whole.Conf(slurmconf.NamespaceYAML)
	if _, reads := c.says("NamespaceType", "linux"); !reads || file == nil || c.Version < "25.11" {
		return
	}
	for _, f := range topology.CheckNamespace(file.File) {
		c.find(f)
	}
}
