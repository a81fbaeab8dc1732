package elastic

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// PodsChanged takes a change of the controller's table.
func (r *Reconciler) PodsChanged(c peers.Change) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if stirred := r.pods.take(c); stirred || len(c.Gone) > 0 && r.ending() {
		go r.Wake()
	}
}

// ending: somebody waits for the end of a pod. The caller holds mu.
func (r *Reconciler) ending() bool {
	return slices.ContainsFunc(r.status.Sets, func(s SetStatus) bool { return s.Ending > 0 })
}

// podNames is nil while nobody knows the pods.
func (r *Reconciler) podNames() func(string) bool {
	if !r.PodsKnown() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pods.names()
}

// Reports are what the controller gets of all nodes. sets has the elastic sets, by node.
func (r *Reconciler) Reports(nodes []slurm.Node, suspended map[string]bool, sets map[string]string, at time.Time) []wire.NodeReport {
	all := peers.NodeReports(nodes, suspended, sets)
	if r == nil {
		return all
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.pods.replace(all, nodes, at); len(old) > 0 {
		r.Log(slog.LevelInfo,
			"slurmctld wants nodes again whose old pods are still there: they are replaced, because it takes no "+
				"slurmd that is older", listOf(old))
	}
	return all
}

// mostFailing bounds the nodes that are named there: a controller that is taken over costs the agent no more.
const mostFailing = 100_000

// PodsFailing takes what the controller sends of pods that do not start.
func (r *Reconciler) PodsFailing(f wire.Failing) {
	named := uint64(0)
	for _, one := range f.Pods {
		count, err := hostlist.Count(one.Nodes)
		if named += count; err != nil || named > mostFailing {
			r.Log(slog.LevelWarn,
				fmt.Sprintf("the controller reports pods that do not start, and names no nodes, or more than %d", mostFailing))
			return
		}
	}
	r.mu.Lock()
	r.podFailures, r.failingAt = f.Pods, time.Now()
	r.mu.Unlock()
	r.Wake()
}

// failingAge is how long that counts. A controller that is there sends it each minute, and each 5 s while pods start.
// One that is away may have sent a pod that is no more, and its node would be DOWN at once when it is wanted again.
const failingAge = 2 * time.Minute

func (r *Reconciler) fails() []wire.Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.failingAt) > failingAge {
		return nil
	}
	return r.podFailures
}
