package bridge

import (
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/controller/internal/pods"
)

// sharingFor is how long it is believed how the machines of a cluster are shared: 1,000 pods look at all nodes once.
const sharingFor = 5 * time.Second

// sharing is how the node sets of each cluster share their machines.
type sharing struct {
	mu    sync.Mutex
	known map[string]shared
}

type shared struct {
	sets  map[string]bool
	until time.Time
}

// of is setsOf a cluster.
func (s *sharing) of(b *Bridge, cluster string, now time.Time) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, there := s.known[cluster]; there && now.Before(one.until) {
		return one.sets
	}
	if s.known == nil || len(s.known) >= mostRemembered {
		s.known = map[string]shared{}
	}
	sets := setsOf(b.watcher.InCluster(cluster))
	s.known[cluster] = shared{sets, now.Add(sharingFor)}
	return sets
}

// setsOf are the node sets with a slurmd, and whether pods in the queue share the machines of each with each other. In a set
// whose pods say one and the other, as in an update, they do not.
func setsOf(all []*pods.Pod) map[string]bool {
	sets := map[string]bool{}
	for _, p := range all {
		if p.Slurmd() {
			together, there := sets[p.NodeSet.Value()]
			sets[p.NodeSet.Value()] = p.Together && (together || !there)
		}
	}
	return sets
}
