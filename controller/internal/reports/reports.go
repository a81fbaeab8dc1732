// Package reports keeps what the agents of slurmctld have told of their nodes.
package reports

import (
	"sync"
	"time"
	"unique"

	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Reports are the nodes of all clusters, as far as this replica has been told since it leads.
type Reports struct {
	mu       sync.Mutex
	clusters map[string]*cluster
	room     room
	tell     []func(cluster string, names []string)
	// alive says whether a cluster has a slurmctld; nil: nobody knows.
	alive func(cluster string) bool
	// swept is when silent clusters were looked for.
	swept time.Time
	// began is what the times of nodes count from.
	began time.Time
}

// cluster has what the last report left. It counts only after a report to this leader: until then
// another replica may have heard of changes.
type cluster struct {
	nodes map[string]node
	size  size
	known bool
	since time.Time // of known
	// heard is when the last report came, and conf what it has of slurm.conf.
	heard time.Time
	conf  string
}

const (
	// silence is after how long a cluster is forgotten. slurmctld's agent confirms its last report each minute
	// (peers.Reporter), and all of it after a confirmation that failed.
	silence = time.Hour
	// sweep is the time between two looks for silent clusters.
	sweep = time.Minute
)

// node is what is kept of a wire.NodeReport.
type node struct {
	drain   string
	elastic unique.Handle[string]
	state   unique.Handle[wire.State]
	// since is when the state began, after Reports.began.
	since  time.Duration
	wanted bool
}

func (n node) report(name string) wire.NodeReport {
	return wire.NodeReport{Name: name, State: n.state.Value(), Drain: n.drain, Elastic: n.elastic.Value(), Wanted: n.wanted}
}

// New makes empty ones.
func New() *Reports {
	return &Reports{clusters: map[string]*cluster{}, room: room{largest: size{mostNodes, mostText}, inside: map[string]size{}}, began: time.Now()}
}

// Notify has f told of each change, with the names of the nodes that have changed; no names are all. It
// is called before the first report.
func (r *Reports) Notify(f func(cluster string, names []string)) { r.tell = append(r.tell, f) }

// ForgetUnless has a silent cluster forgotten within minutes where alive finds no slurmctld of it. It is called before the
// first report.
func (r *Reports) ForgetUnless(alive func(cluster string) bool) { r.alive = alive }

// Lead begins a time of leadership.
func (r *Reports) Lead() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.clusters {
		c.known = false
	}
}

// Take keeps a report. The server has seen to it that one that is not whole follows the one before, and that none has a
// node twice. An error is peerserver.NotTaken: there is no room.
func (r *Reports) Take(id peerserver.Identity, report wire.Report) error {
	changed, all, err := r.keep(id.Cluster, report, time.Now())
	if err != nil || len(changed) == 0 && !all {
		return err
	}
	if all {
		changed = nil
	}
	for _, f := range r.tell {
		f(id.Cluster, changed)
	}
	return nil
}

func (r *Reports) keep(name string, report wire.Report, now time.Time) (changed []string, all bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetSilent(now)
	c := r.clusters[name]
	if c == nil {
		if !report.Whole {
			return nil, false, nil // nobody knows the rest
		}
		c = &cluster{nodes: map[string]node{}}
	}
	next := c.sizeAfter(report)
	if err := r.room.change(name, c.size, next); err != nil {
		return nil, false, err
	}
	c.size, r.clusters[name] = next, c
	silent := now.Sub(c.heard) > fresh
	c.heard, c.conf = now, report.Conf
	if !c.known || silent { // until now the cluster's nodes had no states
		c.known, c.since, all = true, now, true
	}
	return c.take(report, now.Sub(r.began)), all, nil
}

// kept: a node without a record, of which nothing else is to be known, is none.
func kept(n *wire.NodeReport) bool {
	return n.State != wire.Absent || n.Drain != "" || n.Elastic != ""
}

// sizeAfter is the cluster's size with a report.
func (c *cluster) sizeAfter(report wire.Report) (after size) {
	if !report.Whole {
		after = c.size
	}
	for i := range report.Nodes {
		told := &report.Nodes[i]
		if old, had := c.nodes[told.Name]; had && !report.Whole {
			was := old.report(told.Name)
			after = after.minus(sizeOf(&was))
		}
		if kept(told) {
			after = after.plus(sizeOf(told))
		}
	}
	return after
}

// take returns the nodes that have changed.
func (c *cluster) take(report wire.Report, now time.Duration) (changed []string) {
	before := c.nodes
	if report.Whole {
		c.nodes = make(map[string]node, len(report.Nodes))
	}
	for _, told := range report.Nodes {
		one := node{told.Drain, unique.Make(told.Elastic), unique.Make(told.State), now, told.Wanted}
		old, had := before[told.Name]
		if had && old.state == one.state {
			one.since = old.since
		}
		if !had || old.report(told.Name) != told {
			changed = append(changed, told.Name)
		}
		if !kept(&told) {
			delete(c.nodes, told.Name)
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
	return changed
}

// forgetSilent forgets the clusters of which nobody tells, those without a slurmctld sooner: one that was uninstalled never
// comes back. The caller holds mu.
func (r *Reports) forgetSilent(now time.Time) {
	if now.Sub(r.swept) < sweep {
		return
	}
	r.swept = now
	for name, c := range r.clusters {
		if age := now.Sub(c.heard); age > silence || age > fresh && r.alive != nil && !r.alive(name) {
			_ = r.room.change(name, c.size, size{}) // there is always room for less
			delete(r.clusters, name)
		}
	}
}

// Nodes is how many nodes of all clusters are kept.
func (r *Reports) Nodes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.room.all.nodes
}

// fresh is how long a report counts. slurmctld's agent confirms it each minute, if slurmctld answers.
const fresh = 3 * time.Minute

// Node is what slurmctld's agent has told of a node, and since when its state is that one. It is false
// if no agent has told this leader anything of the cluster lately: silence is no state.
func (r *Reports) Node(cluster, name string) (told wire.NodeReport, since time.Time, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.fresh(cluster)
	if c == nil {
		return wire.NodeReport{}, time.Time{}, false
	}
	n, there := c.nodes[name]
	if !there {
		return wire.NodeReport{Name: name, State: wire.Absent}, c.since, true
	}
	return n.report(name), r.began.Add(n.since), true
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
func (r *Reports) Elastic(cluster string) (nodes []wire.NodeReport, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.fresh(cluster)
	if c == nil {
		return nil, false
	}
	for name, n := range c.nodes {
		if n.elastic != none {
			nodes = append(nodes, n.report(name))
		}
	}
	return nodes, true
}

// none is the node set of a node that has none.
var none = unique.Make("")

// Conf is the digest of the directory with slurm.conf in slurmctld's pod (wire.Report); empty if nobody has told of it
// lately.
func (r *Reports) Conf(cluster string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.fresh(cluster)
	if c == nil {
		return ""
	}
	return c.conf
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
