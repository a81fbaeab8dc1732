package agent

import (
	"path/filepath"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elasticnodes"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/internal/slurmctld/waitnodes"
)

// newElastic makes what slurmctld's agent has for elastic node sets.
func (a *Agent) newElastic(nodes *clusterview.Collector, scontrol slurm.Scontrol) (*elasticnodes.Reconciler, *waitnodes.Server) {
	r := elasticnodes.New(elasticnodes.Options{
		Dir: filepath.Join(a.Root, a.Config.ElasticSets), GresConf: gresConf(a.Config),
		Nodes: nodes, Client: a.client, QuestionLimit: a.questionLimit,
		Slurmctld: func() (serves bool, conf string) {
			s := a.status.Load()
			if s.Conf != nil {
				conf = s.Conf.Live
			}
			return s.State.Serving(), conf
		},
		Published: a.published.Next,
		PodsKnown: func() bool { return a.members != nil && a.members.client.Status().Fresh() },
		Report:    a.nodeRecords.report,
		SetsChanged: func() {
			a.members.reserve()
			a.reloader.Reread(a.post)
		},
		Done: a.over, Log: a.log,
	})
	return r, waitnodes.New(waitnodes.Options{
		Sets:  func() elastic.Sets { sets, _ := r.Current(); return sets },
		Nodes: nodes, Slurm: scontrol, QuestionLimit: a.questionLimit,
		Conf:  func() string { return a.reloader.Live() },
		Alive: a.alive, Done: a.over, Log: a.log,
	})
}

// elasticConf returns what slurm.conf's defaults depend on, nil without SLURMLET_ELASTIC_SETS.
func (a *Agent) elasticConf() func() []reconfig.ElasticSet {
	if a.elasticNodes == nil {
		return nil
	}
	return func() []reconfig.ElasticSet {
		sets, _ := a.elasticNodes.Current()
		all := []reconfig.ElasticSet{}
		for _, s := range sets.All {
			all = append(all, reconfig.ElasticSet{Name: s.Name, Nodes: s.Nodes.String(), Min: s.Min, Features: strings.Split(s.Traits.Features.Value, ","), Gres: s.Size.Gres})
		}
		return all
	}
}
