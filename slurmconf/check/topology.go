package check

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// topologyPlugin is what reads topology.conf: tree, block or ring. Empty: nobody does.
func (c *checker) topologyPlugin() string {
	if c.hasTopologyYAML() {
		return ""
	}
	pair, _ := c.conf.Get("TopologyPlugin")
	plugin := strings.TrimPrefix(strings.ToLower(pair.Value), "topology/")
	if plugin != "tree" && plugin != "block" && plugin != "ring" {
		return ""
	}
	return plugin
}

// groups are the keys of topology.conf that each plugin knows.
var groups = map[string][]string{
	"tree":  {"SwitchName"},
	"block": {"BlockName", "BlockSizes"},
	"ring":  {"RingName"},
}

// hasTopologyYAML: slurmctld reads it, and neither TopologyPlugin nor topology.conf.
func (c *checker) hasTopologyYAML() bool {
	return c.Version >= "25.05" && c.whole.Conf(slurmconf.TopologyYAML) != nil
}

// torus: its values are in topology.yaml only, and those of before are for Slurm that is
// built with --with-dimensions=3 (src/plugins/topology).
func (c *checker) torus() {
	pair, _ := c.conf.Get("TopologyPlugin")
	switch plugin := strings.ToLower(pair.Value); {
	case c.hasTopologyYAML():
	case plugin == "topology/3d_torus" && c.Version < "25.05":
		c.add(pair.Position(), slurmconf.Error, "topology",
			"TopologyPlugin is topology/3d_torus, for Slurm that is built with three dimensions; every other ends "+
				"over it", "another TopologyPlugin")
	case plugin == "topology/torus3d" && slices.Contains(keys.Plugins(c.Version, "topology"), "torus3d"):
		c.add(pair.Position(), slurmconf.Error, "topology",
			"TopologyPlugin is topology/torus3d, and there is no topology.yaml", "topology.yaml with its toruses beside slurm.conf")
	}
}

// topology: slurmctld waits a minute for the file that its plugin reads, and ends.
func (c *checker) topology() {
	c.torus()
	c.topologyYAML()
	plugin := c.topologyPlugin()
	if plugin == "" {
		return
	}
	file := c.whole.Conf(slurmconf.TopologyConf)
	if file == nil {
		pair, _ := c.conf.Get("TopologyPlugin")
		c.add(pair.Position(), slurmconf.Error, "topology", "TopologyPlugin is "+pair.Value+
			", and there is no topology.conf", "topology.conf or topology.yaml beside slurm.conf")
		return
	}
	known := c.nodeSet()
	for line := range file.Lines() {
		key := line.Pairs[0].Key
		if _, isKey := keys.Lookup(c.Version, slurmconf.TopologyConf, "", key); isKey && !oneOf(groups[plugin]...)(key) {
			c.add(line.Position(), slurmconf.Error, "topology", key+" is not of topology/"+plugin, strings.Join(groups[plugin], " or "))
		}
	}
	records := groupsOf(file.Records(groups[plugin][0]))
	c.eachOnce(records)
	for _, g := range records {
		c.unknownNodes(g, known)
		if plugin == "tree" && len(g.name) > maxSwitchName {
			c.add(g.at, slurmconf.Error, "topology", fmt.Sprintf("%s %s has %d bytes", g.kind, g.name, len(g.name)),
				fmt.Sprintf("at most %d", maxSwitchName))
		}
	}
	switch plugin {
	case "tree":
		if c.oneOfBoth(records) {
			c.checkLevels(records)
		}
	case "block":
		pair, _ := file.Get("BlockSizes")
		c.blocks(records, pair, known)
	}
}

// maxSwitchName is Linux's HOST_NAME_MAX.
const maxSwitchName = 64

// oneOfBoth says whether each switch has either nodes or switches (src/plugins/topology/tree/switch_record.c,
// _parse_switches).
func (c *checker) oneOfBoth(switches []group) bool {
	if len(switches) == 0 {
		c.noGroups("switches")
	}
	for _, g := range switches {
		switch {
		case g.hasNodes && g.hasChildren:
			c.add(g.at, slurmconf.Error, "topology", "SwitchName "+g.name+" has Nodes and Switches", "one of both")
			return false
		case !g.hasNodes && !g.hasChildren && c.Version < "25.05":
			c.add(g.at, slurmconf.Error, "topology", "SwitchName "+g.name+" has neither Nodes nor Switches", "one of both")
			return false
		}
	}
	return true
}

func (c *checker) noGroups(what string) {
	severity := slurmconf.Error
	if c.Version < "25.05" {
		severity = slurmconf.Warning
	}
	c.add(slurmconf.Position{File: string(slurmconf.TopologyConf)}, severity, "topology", "there are no "+what,
		"some, or another TopologyPlugin")
}

// blocks judges BlockName and BlockSizes as src/plugins/topology/block/block_record.c does.
func (c *checker) blocks(records []group, sizes slurmconf.Pair, known hostlist.Set) {
	if len(records) == 0 {
		c.noGroups("blocks")
		return
	}
	least, all := 0, 0
	if sizes.Key != "" {
		least = c.blockSizes(sizes.Position(), "BlockSizes", sizes.List())
	}
	for _, g := range records {
		list, err := hostlist.Parse(g.nodes)
		switch {
		case err != nil:
			return // unknownNodes has the finding.
		case !g.hasNodes && c.Version < "25.05":
			c.add(g.at, slurmconf.Error, "topology", "BlockName "+g.name+" has no Nodes", "Nodes=…")
			return
		}
		nodes := list.Set()
		nodes = nodes.Difference(nodes.Difference(known))
		all += nodes.Len()
		if c.Version >= "25.05" {
			continue
		}
		if least == 0 {
			least = nodes.Len()
		}
		if nodes.Len() < least {
			c.add(g.atNodes, slurmconf.Error, "topology",
				fmt.Sprintf("BlockName %s has %d nodes", g.name, nodes.Len()),
				fmt.Sprintf("at least %d, as BlockSizes or the first block says", least))
		}
	}
	if all == 0 && (sizes.Key == "" || c.Version < "25.05") {
		c.noNodes(records[0].at, "BlockSizes")
	}
}

// noNodes: dynamic nodes may have registered when slurmctld starts.
func (c *checker) noNodes(at slurmconf.Position, sizes string) {
	severity := slurmconf.Error
	if _, dynamic := c.conf.Get("MaxNodeCount"); dynamic {
		severity = slurmconf.Warning
	}
	c.add(at, severity, "topology", "no block has a node that slurm.conf names", "Nodes=…, and from 25.05 on "+sizes+
		" may say how many there will be")
}

// blockSizes are the first of them, and that times powers of two. It returns the first.
func (c *checker) blockSizes(at slurmconf.Position, key string, sizes []string) int {
	first := 0
	for _, text := range sizes {
		size := int(integerAtStart(text))
		if first == 0 {
			first = size
		}
		if size <= 0 || size%first != 0 || bits.OnesCount(uint(size/first)) != 1 || size/first > 1<<15 {
			c.add(at, slurmconf.Error, "topology", key+" has "+text, "a number of nodes, and that times 2, 4, 8 and so on up to 32768")
			return max(first, 0)
		}
	}
	return first
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
