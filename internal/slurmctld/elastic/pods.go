package elastic

import (
	"maps"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// podTable has slurmd's pods, as the controller sends them. slurmctld takes no slurmd that is older than its
// wish for the node, and waits for another one until ResumeTimeout. A controller that was away may have missed that
// the node was not wanted for a while, and would keep the old pod.
type podTable struct {
	// all is nil before the controller's first table.
	all map[string]podEntry
	// old are the UIDs of pods whose nodes slurmctld did not want, by node. up are those of nodes that were up: one that
	// powers up after that was not wanted in between, though no look has shown it.
	old, up map[string]string
	// judged is of which look the last report was.
	judged time.Time
}

type podEntry struct {
	uid    string
	ending bool
}

// take takes a change of the controller's table. stirred says that nothing keeps an old pod any more.
func (p *podTable) take(c peers.Change) (stirred bool) {
	if c.Whole && p.all == nil {
		p.all, p.old, p.up = map[string]podEntry{}, map[string]string{}, map[string]string{}
	}
	if p.all == nil {
		return false
	}
	for _, g := range c.Gone {
		stirred = stirred || p.old[g.Name] == g.UID
		delete(p.all, g.Name)
	}
	for _, one := range c.Put {
		if one.Role != role.Slurmd {
			delete(p.all, one.Name)
			continue
		}
		stirred = stirred || one.Ending && p.old[one.Name] == one.UID
		p.all[one.Name] = podEntry{one.UID, one.Ending}
	}
	return stirred
}

// names says which nodes have pods; nil while nobody knows.
func (p *podTable) names() func(string) bool {
	if p.all == nil {
		return nil
	}
	all := maps.Clone(p.all)
	return func(name string) bool { _, has := all[name]; return has }
}

// replace withdraws the wish for nodes that slurmctld starts anew while their old pods are there, so that the
// controller deletes these. It returns the nodes. The reports are those of the nodes, in their order, and at is
// when slurmctld was asked.
func (p *podTable) replace(reports []wire.NodeReport, nodes []slurm.Node, at time.Time) (replaced []string) {
	if p.all == nil || at.Before(p.judged) {
		return nil
	}
	p.judged = at
	for i := range reports {
		one := &reports[i]
		pod, has := p.all[one.Name]
		starts := one.Wanted && nodes[i].Is("POWERING_UP")
		if has && one.Elastic != "" && (!one.Wanted || starts && p.up[one.Name] == pod.uid) {
			p.old[one.Name] = pod.uid
		}
		delete(p.up, one.Name)
		switch {
		case one.Elastic == "", has && !one.Wanted:
		case !has || p.old[one.Name] != pod.uid, !starts: // none, a younger one, or one that slurmctld has taken
			if delete(p.old, one.Name); has && !starts {
				p.up[one.Name] = pod.uid
			}
		case !pod.ending:
			one.Wanted = false
			replaced = append(replaced, one.Name)
		}
	}
	return replaced
}
