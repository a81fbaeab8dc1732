package gonepods

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/confsync"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/elastic"
	"github.com/slurmlet/slurmlet/internal/slurmctld/gonepods/kept"
	"github.com/slurmlet/slurmlet/internal/slurmctld/gonepods/planner"
)

// Options are a Reconciler's surroundings.
type Options struct {
	// Look asks slurmctld for all nodes, and for the nodes of suspended jobs. Slurm asks and changes the rest.
	Look  *clusterview.Collector
	Slurm *slurm.Questions
	// Interval is the time between two reports to the controller, 0 for none. Gone says whether the records of pods
	// that are gone are deleted.
	Interval time.Duration
	Gone     bool
	// Reporter reports to the controller. Elastic, nil where there are no elastic sets, knows what it gets of their nodes.
	Reporter *peers.Reporter
	Elastic  *elastic.Reconciler
	// Kept looks after the records that stay.
	Kept *kept.Keeper
	// Feed knows which nodes' agents follow slurmctld's agent.
	Feed *confsync.Feed
	// Serving says whether slurmctld serves. Published returns what is closed when that may have changed.
	Serving   func() bool
	Published func() <-chan struct{}
	Log       func(slog.Level, string, ...slog.Attr)
}

// Reconciler keeps slurmctld's node records and the cluster's pods in step. It asks slurmctld for all
// nodes, and for suspended jobs, while the controller is connected, and nothing while it is not. A nil
// Reconciler is one where nobody asks for that.
//
// With 10,000 nodes one look costs slurmctld 20 ms for REQUEST_NODE_INFO, and 0.1 ms for each 1,000 jobs
// (REQUEST_JOB_STATE). Every 10 s that is 0.2 % of one core, and one report to the controller
// (peers.NodeReports).
type Reconciler struct {
	Options
	client *peers.Client
	// wake says that there may be something to do.
	wake chan struct{}

	mu   sync.Mutex
	pods *planner.Pods
	// soon is when to look before the interval is over; zero for not at all.
	soon   time.Time
	status Status
	// failedAt is when slurmctld was asked and gave no answer last.
	failedAt time.Time

	// The rest is Run's own. looked is when slurmctld was asked, and notBefore when it may be asked again.
	looked, notBefore time.Time
	// began is when nodes' agents could connect, and settles when those that live have done so.
	began, settles time.Time

	// ending are jobs of nodes that were set DOWN.
	ending []ending

	failures  int
	timeout   time.Duration // SlurmdTimeout, as it was at timeoutAt
	timeoutAt time.Time
}

const (
	// leastLook is the least time between two looks, and soonestLook between two that only a change or a
	// new pod has caused.
	leastLook   = 250 * time.Millisecond
	soonestLook = 2 * time.Second
	// usualLook is the interval where nothing is reported.
	usualLook = time.Minute
	// timeoutAge is how old what is known of SlurmdTimeout may be.
	timeoutAge = 10 * time.Minute
)

// New makes a Reconciler that has heard of no pod.
func New(o Options) *Reconciler {
	return &Reconciler{Options: o, wake: make(chan struct{}, 1), pods: planner.NewPods()}
}

// Follow gives it the stream from slurmlet's controller, before Run.
func (r *Reconciler) Follow(c *peers.Client) {
	if r != nil {
		r.client = c
		r.Reporter.Follow(c)
	}
}

// PodsChanged takes a change of the controller's table.
func (r *Reconciler) PodsChanged(c peers.Change) {
	if r == nil {
		return
	}
	r.mu.Lock()
	if r.Gone {
		r.pods.Take(c, time.Now())
	}
	if slices.ContainsFunc(c.Put, func(p wire.Peer) bool { return p.Role == role.Slurmd && len(p.Addresses) > 0 }) {
		r.lookSoon()
	}
	r.mu.Unlock()
	r.lookAgain()
}

// NodesChanged has slurmctld asked soon: it has changed nodes for their agents.
func (r *Reconciler) NodesChanged() {
	r.mu.Lock()
	r.lookSoon()
	r.mu.Unlock()
	r.lookAgain()
}

// lookSoon has the next look come soon, unless one is due already. The caller holds mu.
func (r *Reconciler) lookSoon() {
	if r.soon.IsZero() {
		r.soon = time.Now().Add(soonestLook)
	}
}

// lookAgain has Run find out when to look next.
func (r *Reconciler) lookAgain() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run looks and acts until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	r.began = time.Now()
	_, _ = r.Feed.Recent(ctx, 0) // the port notes from now on who goes
	if r.Interval > 0 {
		go r.Reporter.Run(ctx)
	}
	for {
		published := r.Published()
		var due <-chan time.Time
		if at := r.next(); !at.IsZero() {
			due = time.After(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-published:
		case <-due:
			r.round(ctx)
		}
	}
}

// interval is the time between two looks that nothing has caused.
func (r *Reconciler) interval() time.Duration {
	if d := r.Interval; d > 0 {
		return d
	}
	return usualLook
}

// next is when slurmctld is to be asked; zero while there is no controller, or no slurmctld.
func (r *Reconciler) next() (at time.Time) {
	if !r.client.Status().Connected || !r.Serving() {
		return time.Time{}
	}
	at = r.looked.Add(r.interval())
	r.mu.Lock()
	_, gone := r.pods.CountGone()
	if !gone.IsZero() && gone.Before(r.settles) {
		gone = r.settles
	}
	for _, sooner := range []time.Time{r.soon, gone} {
		if !sooner.IsZero() && sooner.Before(at) {
			at = sooner
		}
	}
	r.mu.Unlock()
	if at.Before(r.notBefore) {
		at = r.notBefore
	}
	return at
}

// round asks slurmctld, reports to the controller, and does what follows. A slurmctld that does not answer is
// no news: nothing becomes idle or absent, and no record goes.
func (r *Reconciler) round(ctx context.Context) {
	began := time.Now()
	r.mu.Lock()
	r.soon = time.Time{}
	r.mu.Unlock()
	question, cancel := context.WithTimeout(ctx, 2*r.Slurm.Limit())
	defer cancel()
	v := r.Look.Get(question, 0)
	nodes, suspended := v.Readings[clusterview.FamilyNodes], v.Readings[clusterview.FamilySuspended]
	if err := errors.Join(nodes.Err, suspended.Err); err != nil {
		r.looked, r.notBefore = began, time.Now().Add(backoff.Grow(time.Second, r.failures, backoff.LastQuiet))
		r.failures++
		r.note(func(s *Status) { s.Fault, r.failedAt = err.Error(), began })
		return
	}
	r.notBefore = time.Now().Add(leastLook)
	if nodes.At.Before(began) {
		return // slurmctld is slow, and is asked only now and then
	}
	r.looked, r.failures = began, 0
	sets, _ := r.Elastic.Current()
	r.Reporter.Set(r.Elastic.Reports(v.Nodes, v.Suspended, sets.Members(v.Nodes), nodes.At), nodes.At)
	if r.Gone {
		r.settle(ctx, planner.Records{At: nodes.At, Nodes: v.Nodes, Suspended: v.Suspended})
	}
}

func (r *Reconciler) note(change func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}
