package slurmctld

import (
	"slices"
	"time"

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
	if c.Files != nil {
		p.reloader.Stream(*c.Files, p.Post)
	}
	p.kept.Take(c.Returning)
	p.nodeRecords.PodsChanged(c)
	p.elasticNodes.PodsChanged(c)
}

// ControllerAway is called now and then while there is no stream from the controller, and since when.
func (p *Pod) ControllerAway(since time.Time) {
	if p != nil {
		p.reloader.StreamAway(since, p.Post)
	}
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
