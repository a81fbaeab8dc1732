package slurmconf

import "github.com/slurmlet/slurmlet/slurmconf/hostlist"

// Node is a NodeName record. Names, Hostnames and Addresses are hostlists of
// the same length, and the nth of each belong together.
type Node struct {
	Record
	Names, Hostnames, Addresses string
	Features                    []string
}

// Nodes are the nodes of slurm.conf.
func (c *Conf) Nodes() []Node {
	var nodes []Node
	for _, r := range c.Records("NodeName") {
		n := Node{Record: r, Names: r.Name()}
		n.Hostnames = r.or("NodeHostname", n.Names)
		n.Addresses = r.or("NodeAddr", n.Hostnames)
		n.Features = r.features()
		nodes = append(nodes, n)
	}
	return nodes
}

// NodeCount is how many nodes slurm.conf names. A list that Slurm cannot read counts as none.
func (c *Conf) NodeCount() (n int) {
	for _, node := range c.Nodes() {
		list, _ := hostlist.Parse(node.Names) // package check reports what is wrong
		n += list.Len()
	}
	return n
}

// features: Feature goes before Features, and both before DEFAULT's.
func (r Record) features() []string {
	for _, key := range []string{"Feature", "Features"} {
		if p, ok := r.Line.Get(key); ok {
			return p.List()
		}
	}
	for _, key := range []string{"Feature", "Features"} {
		if p, ok := r.Get(key); ok {
			return p.List()
		}
	}
	return nil
}

// or is the value of key, or what Slurm takes instead.
func (r Record) or(key, otherwise string) string {
	if p, ok := r.Get(key); ok {
		return p.Value
	}
	return otherwise
}

// NodeSet is a NodeSet record: nodes with a feature, or of a hostlist, or both.
type NodeSet struct {
	Record
	Feature, Nodes string
}

// NodeSets are the node sets of slurm.conf.
func (c *Conf) NodeSets() []NodeSet {
	var sets []NodeSet
	for _, r := range c.Records("NodeSet") {
		sets = append(sets, NodeSet{r, r.or("Feature", ""), r.or("Nodes", "")})
	}
	return sets
}

// Partition is a PartitionName record.
type Partition struct {
	Record
	// Nodes is a hostlist in which names of NodeSets may stand, or ALL.
	Nodes string
}

// Partitions are the partitions of slurm.conf.
func (c *Conf) Partitions() []Partition {
	var all []Partition
	for _, r := range c.Records("PartitionName") {
		all = append(all, Partition{r, r.or("Nodes", "")})
	}
	return all
}
