package check

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// topologyPlugin is what reads topology.conf: tree, block or ring. Empty: nobody does.
func (c *checker) topologyPlugin() string {
	if c.Version >= "25.05" && c.set.Conf(slurmconf.TopologyYAML) != nil {
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

// topology: slurmctld waits a minute for the file that its plugin reads, and ends.
func (c *checker) topology() {
	plugin := c.topologyPlugin()
	if plugin == "" {
		return
	}
	file := c.set.Conf(slurmconf.TopologyConf)
	if file == nil {
		pair, _ := c.conf.Get("TopologyPlugin")
		c.add(pair.Position(), slurmconf.Error, "topology", "TopologyPlugin is "+pair.Value+", and there is no topology.conf", "topology.conf or topology.yaml beside slurm.conf")
		return
	}
	known := c.nodeSet()
	for line := range file.Lines() {
		key := line.Pairs[0].Key
		if _, isKey := keys.Lookup(c.Version, slurmconf.TopologyConf, "", key); isKey && !oneOf(groups[plugin]...)(key) {
			c.add(line.Position(), slurmconf.Error, "topology", key+" is not of topology/"+plugin, strings.Join(groups[plugin], " or "))
		}
	}
	records := file.Records(groups[plugin][0])
	first := map[string]slurmconf.Position{}
	for _, r := range records {
		c.unknownNodes(r, known)
		if at, ok := first[r.Name()]; ok {
			c.add(r.Pairs[0].Position(), slurmconf.Error, "topology", fmt.Sprintf("%s %s is there already, at %s", r.Pairs[0].Key, r.Name(), at), "one line for each")
		}
		first[r.Name()] = r.Position()
	}
	switch plugin {
	case "tree":
		c.tree(records)
	case "block":
		c.blocks(file, records, known)
	}
}

// tree: src/plugins/topology/tree/switch_record.c.
func (c *checker) tree(records []slurmconf.Record) {
	if len(records) == 0 {
		c.nothing("switches")
	}
	level := map[string]int{}
	for _, r := range records {
		_, nodes := r.Get("Nodes")
		_, switches := r.Get("Switches")
		switch {
		case nodes && switches:
			c.add(r.Position(), slurmconf.Error, "topology", "SwitchName "+r.Name()+" has Nodes and Switches", "one of both")
			return
		case !nodes && !switches && c.Version < "25.05":
			c.add(r.Position(), slurmconf.Error, "topology", "SwitchName "+r.Name()+" has neither Nodes nor Switches", "one of both")
			return
		case !switches:
			level[r.Name()] = 0
		default:
			level[r.Name()] = -1
		}
	}
	c.levels(records, level)
}

// maxLevels is how deep Slurm looks for leaves.
const maxLevels = 21

// levels: all ways down from a switch end at one with nodes.
func (c *checker) levels(records []slurmconf.Record, level map[string]int) {
	for range maxLevels {
		resolved := true
		for _, r := range records {
			if level[r.Name()] >= 0 {
				continue
			}
			deepest, ok := c.deepest(r, level)
			if !ok {
				return
			}
			if level[r.Name()] = deepest; deepest < 0 {
				resolved = false
			}
		}
		if resolved {
			return
		}
	}
	for _, r := range records {
		if level[r.Name()] < 0 {
			c.add(r.Position(), slurmconf.Error, "topology", "SwitchName "+r.Name()+" leads to itself: the switches are no tree", "")
			return
		}
	}
}

// deepest is one more than the level of the deepest child, -1 where one's is not known.
func (c *checker) deepest(r slurmconf.Record, level map[string]int) (int, bool) {
	pair, _ := r.Get("Switches")
	list, err := hostlist.Parse(pair.Value)
	if err != nil {
		c.add(pair.Position(), slurmconf.Error, "hostlist", "Switches: "+err.Error(), "")
		return 0, false
	}
	most := 0
	for child := range list.All() {
		below, ok := level[child]
		switch {
		case !ok || child == r.Name():
			c.add(pair.Position(), slurmconf.Error, "topology", "SwitchName "+r.Name()+" has "+child+" below it", "the name of another switch")
			return 0, false
		case below < 0:
			most = -1
		case most >= 0:
			most = max(most, below+1)
		}
	}
	return most, true
}

func (c *checker) nothing(what string) {
	severity := slurmconf.Error
	if c.Version < "25.05" {
		severity = slurmconf.Warning
	}
	c.add(slurmconf.Position{File: string(slurmconf.TopologyConf)}, severity, "topology", "there are no "+what, "some, or another TopologyPlugin")
}

// blocks: src/plugins/topology/block/block_record.c.
func (c *checker) blocks(file *slurmconf.Conf, records []slurmconf.Record, known hostlist.Set) {
	if len(records) == 0 {
		c.nothing("blocks")
	}
	least := 0
	if pair, ok := file.Get("BlockSizes"); ok {
		least = c.blockSizes(pair)
	}
	for _, r := range records {
		pair, ok := r.Get("Nodes")
		list, err := hostlist.Parse(pair.Value)
		switch {
		case c.Version >= "25.05" || err != nil:
			continue
		case !ok:
			c.add(r.Position(), slurmconf.Error, "topology", "BlockName "+r.Name()+" has no Nodes", "Nodes=…")
			return
		}
		nodes := list.Set()
		nodes = nodes.Difference(nodes.Difference(known))
		if least == 0 {
			least = nodes.Len()
		}
		if nodes.Len() < least {
			c.add(pair.Position(), slurmconf.Error, "topology", fmt.Sprintf("BlockName %s has %d nodes", r.Name(), nodes.Len()), fmt.Sprintf("at least %d, as BlockSizes or the first block says", least))
		}
	}
}

// blockSizes are the first of them, and that times powers of two. It returns the first.
func (c *checker) blockSizes(pair slurmconf.Pair) int {
	first := 0
	for _, text := range pair.List() {
		size := int(integerAtStart(text))
		if first == 0 {
			first = size
		}
		if size <= 0 || size%first != 0 || bits.OnesCount(uint(size/first)) != 1 || size/first > 1<<15 {
			c.add(pair.Position(), slurmconf.Error, "topology", "BlockSizes has "+text, "a number of nodes, and that times 2, 4, 8 and so on up to 32768")
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
