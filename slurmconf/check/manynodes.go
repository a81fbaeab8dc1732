package check

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
)

const (
	// hops is how many slurmds a message of slurmctld's should go through at most. Each adds
	// twice MessageTimeout to how long an answer may take (src/common/forward.c, start_msg_tree).
	hops = 3
	// many nodes ask at once, after a restart or an edit: from then on the connections count.
	many = 1000
	// enoughConnections is conmgr_max_connections by default from 25.05 on; before, it was 50.
	enoughConnections, formerConnections = 512, 50
	// enoughTimeout is the MessageTimeout for a large cluster. slurmctld takes some 20 ms for the
	// registration of a new node when it knows 10,000, and answers nobody meanwhile: as many of
	// them as there are connections take ten seconds.
	enoughTimeout = 30
)

// manyNodes: settings that are right for some hundred nodes are not for some thousand.
func (c *checker) manyNodes() {
	nodes, at := c.nodeCount()
	if nodes > maxNodes {
		return // MaxNodeCount has the finding.
	}
	width := c.number("TreeWidth", 16)
	depth := treeDepth(nodes, width)
	timeout, dead := c.number("MessageTimeout", 10), c.number("SlurmdTimeout", 300)
	if depth > hops {
		c.add(c.placeOf("TreeWidth", at), slurmconf.Warning, "many-nodes",
			fmt.Sprintf(
				"TreeWidth is %d, and a message to %d nodes goes through %d slurmds: each adds %d seconds to how "+
					"long one that does not answer holds up the others' answers", width, nodes, depth, 2*timeout),
			fmt.Sprintf("TreeWidth=%d", slurmconf.TreeWidth(nodes)))
	}
	if wait := 2 * min(depth, hops) * timeout; depth > 1 && dead > 0 && wait >= dead {
		c.add(c.placeOf("SlurmdTimeout", c.placeOf("MessageTimeout", at)), slurmconf.Warning, "many-nodes",
			fmt.Sprintf(
				"a slurmd that does not answer may hold up the answers of those behind it for %d seconds (twice "+
					"MessageTimeout=%d for each of %d slurmds on the way to %d nodes), and SlurmdTimeout is %d: "+
					"slurmctld sets these nodes DOWN, which ends their jobs", wait, timeout, min(depth, hops), nodes, dead),
			fmt.Sprintf("SlurmdTimeout=%d or more", wait+wait/2))
	}
	if have := c.connections(); nodes >= many && have < enoughConnections {
		c.add(c.placeOf("SlurmctldParameters", at), slurmconf.Warning, "many-nodes",
			fmt.Sprintf(
				"slurmctld serves %d connections at once (conmgr_max_connections), and %d nodes may ask at once: "+
					"users wait behind them", have, nodes),
			fmt.Sprintf("conmgr_max_connections=%d or more in SlurmctldParameters", enoughConnections))
	}
	if nodes > slurmconf.DefaultTree && timeout < enoughTimeout {
		c.add(c.placeOf("MessageTimeout", at), slurmconf.Warning, "many-nodes",
			fmt.Sprintf(
				"MessageTimeout is %d, and slurmctld may take longer to answer while many of %d nodes join: "+
					"whoever gives up asks again", timeout, nodes),
			fmt.Sprintf("MessageTimeout=%d", enoughTimeout))
	}
}

// nodeCount is how many nodes there may be, and where that is said.
func (c *checker) nodeCount() (int, slurmconf.Position) {
	nodes, at := c.conf.NodeCount(), c.startOfConf()
	if pair, ok := c.conf.Get("MaxNodeCount"); ok {
		if most, err := strconv.Atoi(pair.Value); err == nil && most >= nodes {
			return most, pair.Position()
		}
	}
	return nodes, at
}

// connections is what conmgr_max_connections is.
func (c *checker) connections() int {
	pair, _ := c.conf.Get("SlurmctldParameters")
	for _, one := range pair.List() {
		if value, is := strings.CutPrefix(strings.ToLower(one), "conmgr_max_connections="); is {
			if n, err := strconv.Atoi(value); err == nil && n > 0 {
				return n
			}
		}
	}
	if c.Version < "25.05" {
		return formerConnections
	}
	return enoughConnections
}

// treeDepth is through how many slurmds a message goes at most.
func treeDepth(nodes, width int) (depth int) {
	if width == 0 {
		width = 16 // as Slurm does
	}
	for reached, rank := 0, 1; reached < nodes; depth++ {
		rank *= width
		reached += rank
	}
	return depth
}
