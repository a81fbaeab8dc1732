package reconfig

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// A node has taken a reconfigure when it has another slurmd than before: slurmd puts a new
// process in its place. So slurmctld is asked before the reconfigure when each slurmd started,
// and afterwards again.

// prefetch asks for the node starts while an edit is left in peace until it is complete:
// slurmctld needs longer to answer than everything else before a reconfigure. During a
// reload slurmds are about to be replaced, and the answer would be of no use.
func (r *Reloader) prefetch(ctx context.Context) {
	if !r.seen.Load().idle() {
		return
	}
	if n := r.prefetched.Load(); n == nil || !n.fresh() {
		r.prefetched.Store(r.askStarts(ctx))
	}
}

// nodeStarts is the question that was asked when the edit began, or a new one.
func (r *Reloader) nodeStarts(ctx context.Context) *nodeStarts {
	if n := r.prefetched.Swap(nil); n != nil && n.fresh() {
		return n
	}
	return r.askStarts(ctx)
}

func (r *Reloader) askStarts(ctx context.Context) *nodeStarts {
	n := &nodeStarts{asked: time.Now(), over: make(chan struct{})}
	go func() {
		defer close(n.over)
		ctx, cancel := context.WithTimeout(ctx, node.QuestionLimit)
		defer cancel()
		nodes, err := r.Client.Nodes(ctx)
		if err != nil {
			return
		}
		n.starts = map[string]time.Time{}
		for i := range nodes {
			if one := &nodes[i]; follows(one) {
				n.starts[one.Name] = one.SlurmdStartAt.Time()
			}
		}
	}()
	return n
}

// noteStarts brings the node starts of the present reload up to date, and says whether
// slurmctld answered.
func (r *Reloader) noteStarts(ctx context.Context) bool {
	starts := r.askStarts(ctx).answer()
	r.attempt.learn(func(f *facts) { f.starts = starts })
	return starts != nil
}

// askNodes asks after a while which nodes have taken the live set. Before, it has the
// slurmds of some restarted.
func (r *Reloader) askNodes(ctx context.Context, act conf.AskNodes) lifecycle.Event {
	r.restart(ctx, act.Restart)
	pause(ctx, act.After)
	ctx, cancel := context.WithTimeout(ctx, node.QuestionLimit)
	defer cancel()
	began := time.Now()
	nodes, err := r.Client.Nodes(ctx)
	found := conf.NodesAsked{Number: act.Number, Cost: time.Since(began), Err: err}
	known, addresses := r.attempt.known(), map[string]string{}
	var missed []*slurm.Node
	for i := range nodes {
		n := &nodes[i]
		before, expected := known.starts[n.Name]
		if known.starts == nil {
			expected = follows(n)
		}
		switch {
		case !expected:
		case n.SlurmdStartAt.IsZero():
			found.Unheard = append(found.Unheard, n.Name)
		case known.took(before, n.SlurmdStartAt.Time()):
			found.Took++
			found.Canary = found.Canary || len(act.Restart) > 0 && n.Name == act.Restart[0]
		default:
			missed = append(missed, n)
			addresses[n.Name] = n.Detail().Address
		}
	}
	r.attempt.learn(func(f *facts) { f.addresses = addresses })
	found.Missed = r.ranked(missed)
	return found
}

// ranked puts the nodes first whose slurmd had best be restarted first: those whose agents
// listen, and then those without jobs.
func (r *Reloader) ranked(nodes []*slurm.Node) []string {
	if len(nodes) == 0 {
		return nil
	}
	listens := r.Feed.Hosts()
	rank := func(n *slurm.Node) (rank int) {
		if !listens[n.Detail().Address] {
			rank += 2
		}
		if n.Busy() {
			rank++
		}
		return rank
	}
	slices.SortStableFunc(nodes, func(x, y *slurm.Node) int { return rank(x) - rank(y) })
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return names
}

// restartPace is how long a slurmd has for its start before the next one's: thousands
// fetch the configuration.
const restartPace = 2 * time.Millisecond

// restart has the slurmds of nodes restarted that have not followed. Each agent hears of it once.
func (r *Reloader) restart(ctx context.Context, nodes []string) {
	if len(nodes) == 0 {
		return
	}
	hosts, addresses := map[string]bool{}, r.attempt.known().addresses
	ctx, cancel := context.WithTimeout(ctx, node.QuestionLimit)
	defer cancel()
	for _, n := range nodes {
		for _, at := range resolved(ctx, cmp.Or(addresses[n], n)) {
			hosts[at] = true
		}
	}
	if len(hosts) == 0 {
		return
	}
	dir, err := filepath.EvalSymlinks(r.liveSet.Current())
	if err != nil {
		return // place has reported it
	}
	r.Feed.Restart(dir, hosts, time.Duration(len(hosts))*restartPace)
}

// resolved: NodeAddr is a name where no slurmd has registered from an address yet.
func resolved(ctx context.Context, address string) []string {
	if at, err := netip.ParseAddr(address); err == nil {
		return []string{at.Unmap().String()}
	}
	all, _ := net.DefaultResolver.LookupHost(ctx, address) // an agent that DNS does not know cannot listen here
	return all
}

// pause ends early with ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
