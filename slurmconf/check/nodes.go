package check

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// nodes checks the records of slurm.conf that name nodes. A node that only slurmctld
// knows, because it is dynamic, can be in a partition by a NodeSet with Feature= or
// by Nodes=ALL; by its name slurmctld refuses it at its next start.
func (c *checker) nodes() {
	n := &nodeNames{checker: c, sets: map[string]slurmconf.NodeSet{}}
	n.readNodes()
	n.readNodeSets()
	n.readPartitions()
	n.readDownNodes()
}

type nodeNames struct {
	*checker
	known hostlist.Set
	// unread: of some records, Slurm reads names that are not known here.
	unread bool
	sets   map[string]slurmconf.NodeSet // by name
}

func (n *nodeNames) readNodes() {
	var lists []hostlist.List
	var first []slurmconf.Pair
	for _, node := range n.conf.Nodes() {
		names, ok := n.expand(node.Pairs[0], node.Names)
		if !ok {
			continue
		}
		n.shape(node)
		n.reserved(node)
		lists, first = append(lists, names), append(first, node.Pairs[0])
		n.sameLength(node, "NodeAddr", node.Addresses, names.Len())
		n.sameLength(node, "NodeHostname", node.Hostnames, names.Len())
		n.further(node, names.Len())
	}
	all := hostlist.Concat(lists...)
	n.known = all.Set()
	n.fits()
	if n.known.Len() < all.Len() && n.known.Len() <= maxNodes {
		n.twice(first, lists)
	}
}

// maxNodes is Slurm's MAX_SLURM_NODES.
const maxNodes = 65536

// twice finds, line by line, nodes that have a record already.
func (n *nodeNames) twice(first []slurmconf.Pair, lists []hostlist.List) {
	at := map[string]slurmconf.Position{}
	for i, list := range lists {
		var again []string
		var earlier slurmconf.Position
		for name := range list.All() {
			if before, ok := at[name]; !ok {
				at[name] = first[i].Line().Position()
			} else if again = append(again, name); len(again) == 1 {
				earlier = before
			}
		}
		if len(again) > 0 {
			what := fmt.Sprintf("%s has a record already, at %s", hostlist.Of(slices.Values(again)), earlier)
			n.add(first[i].Position(), slurmconf.Error, "duplicate-node", what, "one record for each node")
		}
	}
}

// sameLength judges how many values NodeAddr or NodeHostname has: one for all nodes, or as many as nodes (slurm.conf(5)).
func (n *nodeNames) sameLength(node slurmconf.Node, key, expression string, nodes int) {
	pair, ok := node.Get(key)
	if !ok {
		return
	}
	hosts, ok := n.expand(pair, expression)
	if ok && hosts.Len() != nodes && hosts.Len() != 1 {
		n.add(pair.Position(), slurmconf.Error, "node-addresses",
			fmt.Sprintf("%s has %d values for the %d nodes of %s", pair.Key, hosts.Len(), nodes, node.Names), "as many as nodes, or one")
	}
}

// reserved: names that a node cannot have.
func (n *nodeNames) reserved(node slurmconf.Node) {
	switch {
	case node.Names == "":
		n.add(node.Pairs[0].Position(), slurmconf.Error, "node-name", "NodeName is empty", "a name")
	case strings.EqualFold(node.Names, "ALL"):
		n.add(node.Pairs[0].Position(), slurmconf.Error, "node-name", "NodeName is ALL, which is all of them", "another name")
	}
}

// further: one port and broadcast address for all, or as many as nodes. A range of
// ports goes without brackets.
func (n *nodeNames) further(node slurmconf.Node, nodes int) {
	if pair, ok := node.Line.Get("BcastAddr"); ok {
		n.sameLength(node, "BcastAddr", pair.Value, nodes)
	}
	pair, ok := node.Get("Port")
	if !ok || pair.Value == "" {
		return
	}
	expression := pair.Value
	if expression[0] != '[' && strings.ContainsAny(expression, "-,") {
		expression = "[" + expression + "]"
	}
	n.sameLength(node, "Port", expression, nodes)
	list, err := hostlist.Parse(expression)
	if err != nil || list.Len() != nodes && list.Len() != 1 {
		return
	}
	for port := range list.All() {
		if p := integerAtStart(port); p <= 0 || p > math.MaxUint16 {
			n.add(pair.Position(), slurmconf.Error, "node-port", "Port has "+port, "1 to 65535")
			return
		}
	}
}

// fits: the nodes of slurm.conf count for MaxNodeCount too.
func (n *nodeNames) fits() {
	pair, ok := n.conf.Get("MaxNodeCount")
	if !ok {
		if n.known.Len() > maxNodes {
			n.add(n.startOfConf(), slurmconf.Error, "node-count", fmt.Sprintf("there are %d nodes", n.known.Len()),
				fmt.Sprintf("at most %d", maxNodes))
		}
		return
	}
	most, err := pair.Uint(math.MaxUint32)
	switch {
	case err != nil: // checker.value has the finding.
	case most > maxNodes:
		n.add(pair.Position(), slurmconf.Error, "node-count", "MaxNodeCount is "+pair.Value, fmt.Sprintf("at most %d", maxNodes))
	case uint64(n.known.Len()) > most:
		n.add(pair.Position(), slurmconf.Error, "node-count",
			fmt.Sprintf("MaxNodeCount is %d, and there are %d nodes here", most, n.known.Len()), "as many, and one for each dynamic node")
	}
}

func (n *nodeNames) readNodeSets() {
	for _, set := range n.conf.NodeSets() {
		pair := set.Pairs[0]
		name := set.Name()
		if n.known.Contains(name) {
			n.add(pair.Position(), slurmconf.Error, "nodeset-name", "NodeSet "+name+" has the name of a node", "another name")
		}
		if earlier, ok := n.sets[name]; ok {
			n.add(pair.Position(), slurmconf.Warning, "duplicate-nodeset",
				fmt.Sprintf("NodeSet %s is there already, at %s; only one of both counts", name, earlier.Position()), "one line for each")
		}
		n.sets[name] = set
		if set.Nodes == "" || strings.EqualFold(set.Nodes, "ALL") {
			continue
		}
		if at, ok := set.Get("Nodes"); ok {
			if list, ok := n.expandOr(slurmconf.Warning, at, set.Nodes); ok {
				n.unknownNames(at, slurmconf.Warning, "NodeSet "+name, list)
			}
		}
	}
}

func (n *nodeNames) readPartitions() {
	seen := map[string]slurmconf.Position{}
	for _, p := range n.conf.Partitions() {
		pair := p.Pairs[0]
		if at, ok := seen[p.Name()]; ok {
			n.add(pair.Position(), slurmconf.Error, "duplicate-partition",
				fmt.Sprintf("partition %s is there already, at %s", p.Name(), at), "one line for each")
		}
		seen[p.Name()] = p.Position()
		if at, ok := p.Get("Nodes"); ok && !strings.EqualFold(p.Nodes, "ALL") && p.Nodes != "" {
			n.partitionNodes(at, p)
		}
	}
	n.defaults()
}

// partitionNodes are nodes, and NodeSets with the nodes in them.
func (n *nodeNames) partitionNodes(at slurmconf.Pair, p slurmconf.Partition) {
	list, ok := n.expand(at, p.Nodes)
	if !ok {
		return
	}
	n.unknownNames(at, slurmconf.Error, "partition "+p.Name(), list)
	for name := range list.All() {
		set, ok := n.sets[name]
		if !ok || strings.EqualFold(set.Nodes, "ALL") {
			continue
		}
		inner, err := hostlist.Parse(set.Nodes)
		switch {
		case err == nil:
			n.unknownHosts(at, slurmconf.Error, "partition "+p.Name()+", by NodeSet "+name, inner, n.known.Contains)
		case n.Version < "25.05":
			n.add(at.Position(), slurmconf.Error, "hostlist", "partition "+p.Name()+", by NodeSet "+name+": "+err.Error(), "")
		}
	}
}

// defaults: of several default partitions slurmctld takes the last one.
func (n *nodeNames) defaults() {
	var last *slurmconf.Partition
	for _, p := range n.conf.Partitions() {
		pair, ok := p.Line.Get("Default")
		if !ok || !isYes(pair) {
			continue
		}
		if last != nil {
			n.add(pair.Position(), slurmconf.Warning, "default-partition",
				fmt.Sprintf("partition %s is the default, and %s was, at %s", p.Name(), last.Name(), last.Position()), "Default=YES in one")
		}
		last = &p
	}
}

func (n *nodeNames) readDownNodes() {
	for _, r := range n.conf.Records("DownNodes") {
		if list, ok := n.expandOr(slurmconf.Warning, r.Pairs[0], r.Name()); ok {
			n.unknownNames(r.Pairs[0], slurmconf.Warning, "DownNodes", list)
		}
	}
}

// knownAsGreatest: Slurm makes the name of a node of this one.
func (n *nodeNames) knownAsGreatest(name string) bool {
	if !isTooGreat(name) {
		return false
	}
	for node := range n.known.All() {
		if asGreatest(node) == asGreatest(name) {
			return true
		}
	}
	return false
}

// unknownNames finds hosts that are neither nodes nor NodeSets here.
func (n *nodeNames) unknownNames(at slurmconf.Pair, severity slurmconf.Severity, where string, list hostlist.List) {
	n.unknownHosts(at, severity, where, list, func(name string) bool { _, ok := n.sets[name]; return ok })
}

// unknownHosts finds hosts that are no nodes, but for those that are known otherwise.
func (n *nodeNames) unknownHosts(at slurmconf.Pair, severity slurmconf.Severity, where string, list hostlist.List,
	known func(string) bool,
) {
	var names []string
	for name := range list.Set().Difference(n.known).All() {
		if !known(name) && !n.knownAsGreatest(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 || n.unread || n.isLocalhost() {
		return
	}
	unknown := hostlist.Of(slices.Values(names)).String()
	want := "a NodeName or NodeSet line for it; dynamic nodes are in a partition by NodeSet=… Feature=… or Nodes=ALL"
	n.add(at.Position(), severity, "unknown-node", fmt.Sprintf("%s has %s, which is no node and no NodeSet", where, unknown), want)
}

// isLocalhost: where the only node is localhost, slurmctld takes every name for it
// (src/common/node_conf.c, find_node_record).
func (n *nodeNames) isLocalhost() bool { return n.known.Len() == 1 && n.known.Contains("localhost") }

// expand is the hosts of an expression, or a finding.
func (n *nodeNames) expand(at slurmconf.Pair, expression string) (hostlist.List, bool) {
	return n.expandOr(slurmconf.Error, at, expression)
}

func (n *nodeNames) expandOr(severity slurmconf.Severity, at slurmconf.Pair, expression string) (hostlist.List, bool) {
	list, err := hostlist.Parse(expression)
	switch {
	case err == nil:
		return list, true
	case errors.Is(err, hostlist.ErrTooLong), errors.Is(err, hostlist.ErrTooGreat):
		severity, n.unread = slurmconf.Warning, true // Slurm reads it.
	}
	n.add(at.Position(), severity, "hostlist", at.Key+": "+err.Error(), "")
	return list, false
}
