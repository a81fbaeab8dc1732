// Package reports keeps what the agents of slurmctld have told of their nodes.
package reports

import (
	"maps"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/peers"
)

// Reports are the nodes of all clusters, as far as this replica has been told since it leads.
type Reports struct {
	mu       sync.Mutex
	clusters map[string]*cluster
	tell     []func(cluster string, names []string)
}

// cluster has what the last report left. It counts only after a report to this leader: until then
// another replica may have heard of changes.
type cluster struct {
	nodes map[string]node
	known bool
	since time.Time // of known
	// heard is when the last report came.
	heard time.Time
}

// silence is after how long a cluster is forgotten. slurmctld's agent confirms its last report each minute
// (peers.Reporter), and all of it after a confirmation that failed.
const silence = time.Hour

type node struct {
	peers.NodeReport
	since time.Time
}

// New makes empty ones.
func New() *Reports { return &Reports{clusters: map[string]*cluster{}} }

// Notify has f told of each change, with the names of the nodes that have changed; no names are all. It
// is called before the first report.
func (r *Reports) Notify(f func(cluster string, names []string)) { r.tell = append(r.tell, f) }

// Lead begins a time of leadership.
func (r *Reports) Lead() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.clusters {
		c.known = false
	}
}

// Take keeps a report. The server has seen to it that one that is not whole follows the one before.
func (r *Reports) Take(id peers.Identity, report peers.Report) {
	changed, all := r.keep(id.Cluster, report, time.Now())
	if len(changed) == 0 && !all {
		return
	}
	if all {
		changed = nil
	}
	for _, f := range r.tell {
		f(id.Cluster, changed)
	}
}

func (r *Reports) keep(name string, report peers.Report, now time.Time) (changed []string, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clusters[name]
	if c == nil {
		if !report.Whole {
			return nil, false // nobody knows the rest
		}
		maps.DeleteFunc(r.clusters, func(_ string, c *cluster) bool { return now.Sub(c.heard) > silence })
		c = &cluster{nodes: map[string]node{}}
		r.clusters[name] = c
	}
	silent := now.Sub(c.heard) > fresh
	c.heard = now
	if !c.known || silent { // until now the cluster's nodes had no states
		c.known, c.since, all = true, now, true
	}
	before := c.nodes
	if report.Whole {
		c.nodes = make(map[string]node, len(report.Nodes))
	}
	for _, told := range report.Nodes {
		one := node{told, now}
		if old, had := before[told.Name]; had && old.State == told.State {
			one.since = old.since
		}
		if before[told.Name].NodeReport != told {
			changed = append(changed, told.Name)
		}
		if told.State == peers.Absent && told.Drain == "" && told.Elastic == "" {
			delete(c.nodes, told.Name) // as one without a record
			continue
		}
		c.nodes[told.Name] = one
	}
	if report.Whole {
		for gone := range before {
			if _, there := c.nodes[gone]; !there {
				changed = append(changed, gone)
			}
		}
	}
	return changed, all
}

// fresh is how long a report counts. slurmctld's agent confirms it each minute, if slurmctld answers.
const fresh = 3 * time.Minute

// Node is what slurmctld's agent has told of a node, and since when its state is that one. It is false
// if no agent has told this leader anything of the cluster lately: silence is no state.
func (r *Reports) Node(cluster, name string) (told peers.NodeReport, since time.Time, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.fresh(cluster)
	if c == nil {
		return peers.NodeReport{}, time.Time{}, false
	}
	n, there := c.nodes[name]
	if !there {
		return peers.NodeReport{Name: name, State: peers.Absent}, c.since, true
	}
	return n.NodeReport, n.since, true
}

// fresh is what was told of a cluster lately; nil if that is nothing. The caller holds mu.
func (r *Reports) fresh(name string) *cluster {
	c := r.clusters[name]
	if c == nil || !c.known || time.Since(c.heard) > fresh {
		return nil
	}
	return c
}

// Known says whether this replica has all of a cluster's nodes: else a report of changes says too little.
func (r *Reports) Known(cluster string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clusters[cluster] != nil
}

// Elastic are the nodes of a cluster's elastic sets. It is false if nobody has told of them lately.
func (r *Reports) Elastic(cluster string) (nodes []peers.NodeReport, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.fresh(cluster)
	if c == nil {
		return nil, false
	}
	for _, n := range c.nodes {
		if n.Elastic != "" {
			nodes = append(nodes, n.NodeReport)
		}
	}
	return nodes, true
}

// Clusters are those that somebody has told of lately.
func (r *Reports) Clusters() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.clusters {
		if r.fresh(name) != nil {
			all = append(all, name)
		}
	}
	return all
}
