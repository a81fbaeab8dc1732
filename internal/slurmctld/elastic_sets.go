package slurmctld

import (
	"path/filepath"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/planner"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic/waitnodes"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// newElastic makes what elastic node sets need.
func (p *Pod) newElastic(nodes *clusterview.Collector, viewing slurm.Scontrol) (*elastic.Reconciler, *waitnodes.Server) {
	r := elastic.New(elastic.Options{
		Dir: filepath.Join(p.Root, p.ElasticSets), GresConf: p.GresConf,
		Nodes: nodes, Client: p.Client, QuestionLimit: p.Client.Limit,
		Slurmctld: func() (serves bool, conf string) {
			l := p.Life()
			return l.Phase.Serving(), l.Conf
		},
		Published: p.Published,
		PodsKnown: func() bool { return p.peers != nil && p.peers.Status().Fresh() },
		Report:    p.reporter.Set,
		SetsChanged: func() {
			p.SetsChanged()
			p.reloader.Reread(p.Post)
		},
		Done: p.Done, Log: p.Log,
	})
	return r, waitnodes.New(waitnodes.Options{
		Sets:  func() planner.Sets { sets, _ := r.Current(); return sets },
		Nodes: nodes, Slurm: viewing, QuestionLimit: p.Client.Limit,
		Conf:  func() string { return p.reloader.LiveDir() },
		Alive: p.Alive, Done: p.Done, Log: p.Log,
	})
}

// setsForConf returns what slurm.conf's defaults depend on, nil without SLURMLET_ELASTIC_SETS.
func (p *Pod) setsForConf() func() []reconfig.ElasticSet {
	if p.elasticNodes == nil {
		return nil
	}
	return func() []reconfig.ElasticSet {
		sets, _ := p.elasticNodes.Current()
		all := []reconfig.ElasticSet{}
		for _, s := range sets.All {
			all = append(all, reconfig.ElasticSet{
				Name: s.Name, Nodes: s.NodeNames.String(), Min: s.Min,
				Features: strings.Split(s.Traits.Features.Value, ","), Gres: s.Size.Gres,
			})
		}
		return all
	}
}
