package slurmctld

import (
	"slices"

	"github.com/slurmlet/slurmlet/internal/link/peers"
)

// Follow gives the stream from slurmlet's controller, before Run.
func (p *Pod) Follow(c *peers.Client) {
	if p == nil {
		return
	}
	p.peers = c
	p.nodeRecords.Follow(c)
}

// PodsChanged takes a change of the controller's table, and what the controller sends with it.
func (p *Pod) PodsChanged(c peers.Change) {
	if p == nil {
		return
	}
	p.kept.Take(c.Returning)
	p.nodeRecords.PodsChanged(c)
	p.elasticNodes.PodsChanged(c)
}

// ElasticNodeNames returns the names of all nodes of elastic sets. known is false before the sets' files were read, and
// where there are none.
func (p *Pod) ElasticNodeNames() (names []string, known bool) {
	if p == nil {
		return nil, false
	}
	sets, known := p.elasticNodes.Current()
	for _, s := range sets.All {
		names = slices.AppendSeq(names, s.NodeNames.All())
	}
	return names, known
}
