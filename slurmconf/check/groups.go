package check

import (
	"errors"
	"fmt"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// group is a switch, a block, a ring or a torus, of topology.conf or topology.yaml. kind
// is the word that names it there.
type group struct {
	kind, name              string
	nodes, children         string
	hasNodes, hasChildren   bool
	at, atNodes, atChildren slurmconf.Position
}

// groupsOf returns the groups that records of topology.conf name.
func groupsOf(records []slurmconf.Record) []group {
	all := make([]group, len(records))
	for i, r := range records {
		nodes, hasNodes := r.Get("Nodes")
		children, hasChildren := r.Get("Switches")
		all[i] = group{
			kind: r.Pairs[0].Key, name: r.Name(), nodes: nodes.Value, children: children.Value, hasNodes: hasNodes,
			hasChildren: hasChildren,
			at:          r.Position(), atNodes: nodes.Position(), atChildren: children.Position(),
		}
	}
	return all
}

// eachOnce refuses groups that have the same name.
func (c *checker) eachOnce(groups []group) {
	first := map[string]slurmconf.Position{}
	for _, g := range groups {
		if at, ok := first[g.name]; ok {
			c.add(g.at, slurmconf.Error, "topology", fmt.Sprintf("%s %s is there already, at %s", g.kind, g.name, at), "each name once")
		}
		first[g.name] = g.at
	}
}

// unknownNodes are a warning in slurmctld's log; they may be dynamic.
func (c *checker) unknownNodes(g group, known hostlist.Set) {
	if !g.hasNodes || strings.EqualFold(g.nodes, "ALL") {
		return
	}
	list, err := hostlist.Parse(g.nodes)
	if err != nil {
		c.add(g.atNodes, c.unreadable(g, err), "hostlist", "Nodes: "+err.Error(), "")
		return
	}
	if unknown := list.Set().Difference(known); unknown.Len() > 0 {
		c.add(g.atNodes, slurmconf.Info, "unknown-node", g.kind+" "+g.name+" has "+unknown.String()+
			", for which slurm.conf has no NodeName", "")
	}
}

// unreadable: slurmctld ends over a list that it cannot read, but for that of a ring.
func (c *checker) unreadable(g group, err error) slurmconf.Severity {
	if strings.HasPrefix(strings.ToLower(g.kind), "ring") || errors.Is(err, hostlist.ErrTooLong) || errors.Is(err, hostlist.ErrTooGreat) {
		return slurmconf.Warning
	}
	return slurmconf.Error
}

// maxLevels is how deep Slurm looks for leaves.
const maxLevels = 21

// checkLevels: all ways down from a switch end at one with nodes
// (src/plugins/topology/tree/switch_record.c).
func (c *checker) checkLevels(switches []group) {
	level := map[string]int{}
	for _, g := range switches {
		if level[g.name] = 0; g.hasChildren && !g.hasNodes {
			level[g.name] = -1
		}
	}
	for range maxLevels {
		resolved := true
		for _, g := range switches {
			if level[g.name] >= 0 {
				continue
			}
			deepest, ok := c.deepest(g, level)
			if !ok {
				return
			}
			if level[g.name] = deepest; deepest < 0 {
				resolved = false
			}
		}
		if resolved {
			return
		}
	}
	for _, g := range switches {
		if level[g.name] < 0 {
			c.add(g.at, slurmconf.Error, "topology", g.kind+" "+g.name+" leads to itself: the switches are no tree", "")
			return
		}
	}
}

// deepest is one more than the level of the deepest child, -1 where one's is not known.
func (c *checker) deepest(g group, level map[string]int) (int, bool) {
	list, err := hostlist.Parse(g.children)
	if err != nil {
		c.add(g.atChildren, slurmconf.Error, "hostlist", "Switches: "+err.Error(), "")
		return 0, false
	}
	most := 0
	for child := range list.All() {
		below, ok := level[child]
		switch {
		case isTooGreat(child):
			c.add(g.atChildren, slurmconf.Error, "topology", g.kind+" "+g.name+" has "+child+
				" below it, of whose number Slurm makes 18446744073709551615, the greatest that it knows",
				"names with numbers of at most 19 digits")
			return 0, false
		case !ok || child == g.name:
			c.add(g.atChildren, slurmconf.Error, "topology", g.kind+" "+g.name+" has "+child+" below it", "the name of another switch")
			return 0, false
		case below < 0:
			most = -1
		case most >= 0:
			most = max(most, below+1)
		}
	}
	return most, true
}

// greatest is the greatest number that Slurm knows.
const greatest = "18446744073709551615"

// isTooGreat: the name ends in a number that Slurm replaces by the greatest that it knows.
func isTooGreat(name string) bool {
	digits := strings.TrimLeft(name[len(strings.TrimRight(name, "0123456789")):], "0")
	return len(digits) > len(greatest) || len(digits) == len(greatest) && digits > greatest
}

// asGreatest is the name that Slurm makes of one that is too great: as long, and filled with zeros.
func asGreatest(name string) string {
	if !isTooGreat(name) {
		return name
	}
	prefix := strings.TrimRight(name, "0123456789")
	return prefix + strings.Repeat("0", len(name)-len(prefix)-len(greatest)) + greatest
}
