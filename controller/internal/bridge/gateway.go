package bridge

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/controller/internal/queue"
	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/link/wire"

	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"
)

const (
	// held is how long a request waits for something to say.
	held = 20 * time.Second
	// mostOrders bounds the orders of one answer.
	mostOrders = 64
	// timeOfOrder is how long a gateway has an order, until nobody knows what has become of it.
	timeOfOrder = time.Minute
	// mostPods is how many pods an answer names.
	mostPods = 16
	// mostHolds bounds the jobs for which nodes of a cluster hold.
	mostHolds = 65_536
)

// ErrAway says that this replica cannot answer: it does not lead, or does not know all pods yet.
var ErrAway = peerserver.ErrAway

// Gateway takes a gateway's report, and returns what it is to do.
func (b *Bridge) Gateway(ctx context.Context, id peerserver.Identity, r wire.GatewayReport) (wire.GatewayOrders, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.term
	if t == nil || !t.synced {
		return wire.GatewayOrders{}, ErrAway
	}
	c := t.cluster(id.Cluster)
	if former := c.asking[id.UID]; former != nil {
		former()
	}
	ctx, cancel := context.WithTimeout(ctx, held)
	defer cancel()
	c.asking[id.UID] = cancel
	b.take(t, c, id.Cluster, r)
	if !c.whole[r.Gateway] {
		return wire.GatewayOrders{All: true}, nil
	}
	for b.term == t {
		if ctx.Err() == nil && len(c.orders) > 0 {
			return wire.GatewayOrders{Orders: b.hand(t, c)}, nil
		}
		changed := c.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		b.mu.Lock()
		if ctx.Err() != nil {
			return wire.GatewayOrders{}, nil
		}
	}
	return wire.GatewayOrders{}, ErrAway
}

// take takes what a gateway tells. The caller holds mu.
func (b *Bridge) take(t *term, c *cluster, name string, r wire.GatewayReport) {
	for _, j := range r.Jobs {
		b.jobIs(t, c, name, j)
	}
	if r.Whole {
		c.known, c.whole[r.Gateway] = true, true
		all := make([]uint32, len(r.Jobs))
		for i, j := range r.Jobs {
			all[i] = j.ID
		}
		for _, g := range t.groups {
			if g.cluster == name {
				b.step(g, queue.AllTold{Jobs: all})
			}
		}
	}
	for _, result := range r.Results {
		o := c.given[result.Order]
		if o == nil {
			continue
		}
		o.timer.Stop()
		delete(c.given, result.Order)
		b.result(t, o, result, r.Jobs)
	}
}

// result has a group hear what has become of its order. The caller holds mu.
func (b *Bridge) result(t *term, o *order, result wire.OrderResult, told []wire.QueuedJob) {
	g := t.groups[o.group]
	if g == nil {
		return
	}
	e := queue.Result{Result: result}
	if i := slices.IndexFunc(told, func(j wire.QueuedJob) bool { return j.ID == o.Job }); i >= 0 && o.Job != 0 {
		e.Told = &told[i]
	}
	b.step(g, e)
	if result.Job != 0 {
		t.cluster(g.cluster).jobs[result.Job] = o.group
	}
}

// jobIs has a group hear of its job. A job whose group is not there is one of which a former leader's pods are gone: it is
// ended, if a namespace has that user. The caller holds mu.
func (b *Bridge) jobIs(t *term, c *cluster, name string, j wire.QueuedJob) {
	uid, known := c.jobs[j.ID]
	if !known {
		uid, _ = wire.GroupOf(j.Comment)
	}
	g := t.groups[uid]
	if g == nil {
		if uid == "" || j.Gone || len(uid) > 253 || t.names(j.ID) || !b.hasUser(name, j.User) {
			return
		}
		g = &group{cluster: name, pods: map[types.UID]*corev1.Pod{}, state: queue.State{Spec: queue.Spec{UID: uid, Name: strings.TrimPrefix(j.Comment, wire.GroupComment), User: j.User, Size: 1}, Known: c.known}}
		t.groups[uid] = g
	}
	if g.cluster != name {
		return // an agent speaks for its own cluster
	}
	b.step(g, queue.JobIs{Job: j, Holds: c.holds[j.ID]})
	if slices.Contains(g.jobs(), j.ID) && t.groups[uid] == g {
		c.jobs[j.ID] = uid
	}
}

// hand gives orders to a gateway. The caller holds mu.
func (b *Bridge) hand(t *term, c *cluster) (orders []wire.Order) {
	n := min(len(c.orders), mostOrders)
	for _, o := range c.orders[:n] {
		orders = append(orders, o.Order)
		c.given[o.ID] = o
		o.timer = time.AfterFunc(timeOfOrder, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.term == t && c.given[o.ID] == o {
				delete(c.given, o.ID)
				b.result(t, o, wire.OrderResult{Order: o.ID, Unknown: "the gateway has not answered"}, nil)
			}
		})
	}
	c.orders = slices.Clone(c.orders[n:])
	return orders
}

// Started takes what a slurmd's agent says of a job.
func (b *Bridge) Started(id peerserver.Identity, s wire.Started) error {
	node := b.node(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.term
	if t == nil || !t.synced || node == "" {
		return ErrAway
	}
	c := t.cluster(id.Cluster)
	g := t.groups[c.jobs[s.Job]]
	if s.Ending {
		if g != nil {
			b.step(g, queue.Hint{Job: s.Job})
		}
		return nil
	}
	if !slices.Contains(c.holds[s.Job], node) && (len(c.holds) < mostHolds || c.holds[s.Job] != nil) {
		c.holds[s.Job] = append(c.holds[s.Job], node)
	}
	if g != nil {
		b.step(g, queue.Held{Job: s.Job, Node: node})
	}
	return nil
}

// node is the Slurm node that a pod is; empty if it has not the name now.
func (b *Bridge) node(id peerserver.Identity) string {
	if p := b.watcher.Get(id.Pod); p != nil && string(p.UID) == id.UID {
		return p.Hostname
	}
	return ""
}

// JobPods are pods of a job, or of any job for 0, that are on a node; none only when it is certain that there is none.
// It waits for a while for them to go. The one who asks is the node.
func (b *Bridge) JobPods(ctx context.Context, id peerserver.Identity, job uint32, node string) ([]string, error) {
	if own := b.node(id); own == "" || own != node {
		return nil, peerserver.ErrNotAllowed
	}
	at := place{node: node}
	if job == 0 {
		own := b.watcher.Get(id.Pod)
		if own == nil { // it has gone meanwhile
			return nil, ErrAway
		}
		at = b.placeOf(own, id.Cluster)
	}
	ctx, cancel := context.WithTimeout(ctx, held)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.term
	w := &waiter{at: at, changed: make(chan struct{}, 1)}
	if t != nil {
		t.waiters[w] = struct{}{}
		defer delete(t.waiters, w)
	}
	for b.term == t && t != nil && t.synced {
		if job != 0 {
			b.asked(t, id.Cluster, job, node)
		}
		names := t.onNode(id.Cluster, job, at, func(namespace string) string {
			tenant, _ := b.tenant(namespace)
			return tenant.Cluster
		})
		if len(names) == 0 {
			return nil, nil
		}
		if ctx.Err() != nil {
			slices.Sort(names)
			return names[:min(len(names), mostPods)], nil
		}
		b.mu.Unlock()
		select {
		case <-w.changed:
		case <-ctx.Done():
		}
		b.mu.Lock()
	}
	return nil, ErrAway
}

// placeOf is the place of a pod with slurmd.
func (b *Bridge) placeOf(own *pods.Pod, cluster string) place {
	at := place{node: own.Hostname, machine: own.Machine.Value(), others: map[string]bool{}}
	for _, p := range b.watcher.InCluster(cluster) {
		if p.Slurmd() && p.UID != own.UID && p.Machine == own.Machine {
			at.others[p.Hostname] = true
		}
	}
	return at
}

// asked has a job's run get no more pods. The caller holds mu.
func (b *Bridge) asked(t *term, cluster string, job uint32, node string) {
	c := t.cluster(cluster)
	c.holds[job] = slices.DeleteFunc(c.holds[job], func(one string) bool { return one == node })
	if len(c.holds[job]) == 0 {
		delete(c.holds, job)
	}
	if g := t.groups[c.jobs[job]]; g != nil {
		b.step(g, queue.Asked{Job: job, Node: node})
	}
}
