package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
	"github.com/slurmlet/slurmlet/slurmconf/topology"
)

// topologyYAML: what slurmctld cannot read there ends it (src/interfaces/topology.c).
func (c *checker) topologyYAML() {
	if !c.hasTopologyYAML() {
		return
	}
	all, findings := topology.Parse(c.whole.Conf(slurmconf.TopologyYAML).File)
	c.topologyNames = []string{}
	for _, f := range findings {
		c.find(f)
		c.topologyNames = nil // There may be more of them.
	}
	known := c.nodeSet()
	for _, t := range all {
		if c.topologyNames != nil {
			c.topologyNames = append(c.topologyNames, t.Name)
		}
		c.yamlGroups(t, known)
	}
}

// yamlGroups checks what one topology has.
func (c *checker) yamlGroups(t topology.Topology, known hostlist.Set) {
	var groups []group
	kind := map[string]string{"tree": "switch", "block": "block", "ring": "ring", "torus3d": "torus"}[t.Plugin]
	for _, g := range t.Groups {
		groups = append(groups, group{
			kind: kind, name: g.Name, nodes: g.Nodes, children: g.Children, hasNodes: g.Nodes != "",
			hasChildren: g.Children != "", at: g.From, atNodes: g.From, atChildren: g.From,
		})
	}
	if t.Plugin != "torus3d" {
		c.eachOnce(groups)
	}
	for _, g := range groups {
		c.unknownNodes(g, known)
	}
	switch t.Plugin {
	case "tree":
		c.checkLevels(groups)
	case "block":
		c.yamlBlocks(t, groups, known)
	case "torus3d":
		c.toruses(t)
	}
}

func (c *checker) yamlBlocks(t topology.Topology, groups []group, known hostlist.Set) {
	sizes := slices.DeleteFunc(strings.Split(t.BlockSizes, ","), func(s string) bool { return s == "" })
	c.blockSizes(t.From, "block_sizes", sizes)
	nodes := 0
	for _, g := range groups {
		list, err := hostlist.Parse(g.nodes)
		if err != nil {
			return // unknownNodes has the finding.
		}
		all := list.Set()
		nodes += all.Difference(all.Difference(known)).Len()
	}
	if nodes == 0 && len(groups) > 0 && len(sizes) == 0 {
		c.noNodes(groups[0].at, "block_sizes")
	}
}

// toruses judges the size of each torus (src/plugins/topology/torus3d/torus3d_record.c, _validate_config).
func (c *checker) toruses(t topology.Topology) {
	for _, g := range t.Groups {
		if g.Dims[0] <= 0 || g.Dims[1] <= 0 || g.Dims[2] <= 0 {
			c.add(g.From, slurmconf.Error, "topology", "torus "+g.Name+" has no dims", "dims: with x, y and z")
			continue
		}
		list, err := hostlist.Parse(g.Nodes)
		if size := g.Dims[0] * g.Dims[1] * g.Dims[2]; err == nil && g.Nodes != "" && !g.Regions && list.Len() != size {
			c.add(g.From, slurmconf.Error, "topology",
				fmt.Sprintf("torus %s is of %d nodes, and has %d", g.Name, size, list.Len()), "as many as x times y times z")
		}
	}
}

// topologies: slurmctld ends over a partition or a node of a topology that there is not
// (src/slurmctld/read_config.c). Without topology.yaml, the only one is "default".
func (c *checker) topologies() {
	if c.Version < "25.05" || c.hasTopologyYAML() && c.topologyNames == nil {
		return
	}
	names := c.topologyNames
	if !c.hasTopologyYAML() {
		names = []string{"default"}
	}
	want := "one of topology.yaml: " + strings.Join(names, ", ")
	if !c.hasTopologyYAML() {
		want = "topology.yaml with it, or a line without Topology"
	}
	for _, p := range c.conf.Partitions() {
		if pair, ok := p.Get("Topology"); ok && !slices.Contains(names, pair.Value) {
			c.add(pair.Position(), slurmconf.Error, "topology",
				fmt.Sprintf("partition %s has Topology=%s, which is none", p.Name(), cmp.Or(pair.Value, `""`)), want)
		}
	}
	for _, node := range c.conf.Nodes() {
		pair, _ := node.Get("Topology")
		for _, one := range pair.List() {
			name, unit, hasUnit := strings.Cut(one, ":")
			switch {
			case !slices.Contains(names, name):
				c.add(pair.Position(), slurmconf.Error, "topology",
					fmt.Sprintf("%s has Topology=%s, and there is no topology %s", node.Names, pair.Value, name), want)
			case hasUnit && !c.hasTopologyYAML():
				c.unit(pair, node.Names, unit)
			}
		}
	}
}

// unit is the switch that a node is added to: switches that are not there yet are named
// behind one that is, with colons between them.
func (c *checker) unit(pair slurmconf.Pair, nodes, unit string) {
	first, _, _ := strings.Cut(unit, ":")
	if c.topologyPlugin() != "tree" || c.whole.Conf(slurmconf.TopologyConf) == nil {
		return
	}
	if !slices.ContainsFunc(groupsOf(c.whole.Conf(slurmconf.TopologyConf).Records("SwitchName")),
		func(g group) bool { return g.name == first }) {
		c.add(pair.Position(), slurmconf.Error, "topology",
			fmt.Sprintf("%s has Topology=%s, and there is no switch %s", nodes, pair.Value, first), "a SwitchName of topology.conf")
	}
}
