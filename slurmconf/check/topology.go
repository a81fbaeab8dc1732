package check

import (
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// topology: slurmctld waits a minute for the file that its plugin reads, and ends.
func (c *checker) topology() {
	pair, ok := c.conf.Get("TopologyPlugin")
	plugin := strings.TrimPrefix(strings.ToLower(pair.Value), "topology/")
	if !ok || plugin != "tree" && plugin != "block" && plugin != "ring" {
		return
	}
	file := c.set.Conf(slurmconf.TopologyConf)
	if file == nil && c.set.Conf(slurmconf.TopologyYAML) == nil {
		c.add(pair.Position(), slurmconf.Error, "topology", "TopologyPlugin is "+pair.Value+", and there is no topology.conf", "topology.conf or topology.yaml beside slurm.conf")
		return
	}
	known := c.nodeSet()
	for _, key := range []string{"SwitchName", "BlockName", "RingName"} {
		for _, r := range file.Records(key) {
			c.unknownNodes(r, known)
		}
	}
}

func (c *checker) nodeSet() hostlist.Set {
	var lists []hostlist.List
	for _, node := range c.conf.Nodes() {
		if list, err := hostlist.Parse(node.Names); err == nil {
			lists = append(lists, list)
		}
	}
	return hostlist.Concat(lists...).Set()
}

// unknownNodes are told by slurmctld as a warning; they may be dynamic.
func (c *checker) unknownNodes(r slurmconf.Record, known hostlist.Set) {
	pair, ok := r.Get("Nodes")
	if !ok || strings.EqualFold(pair.Value, "ALL") {
		return
	}
	list, err := hostlist.Parse(pair.Value)
	if err != nil {
		c.add(pair.Position(), slurmconf.Error, "hostlist", "Nodes: "+err.Error(), "")
		return
	}
	if unknown := list.Set().Difference(known); unknown.Len() > 0 {
		c.add(pair.Position(), slurmconf.Info, "unknown-node", r.Pairs[0].Key+" "+r.Name()+" has "+unknown.String()+", for which slurm.conf has no NodeName", "")
	}
}
