// Package cordon does to the node what Kubernetes wants of its machine: it drains the node, and gives it what the machine
// gives its nodes.
package cordon

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/kit/bell"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// Options are what there is to know of the node.
type Options struct {
	// Node is its name in Slurm, Elastic says that slurmctld itself starts and ends it.
	Node    string
	Elastic bool
	// Machine is the Kubernetes node that the pod runs on, empty where it is not known.
	Machine string
	Slurm   *slurm.Questions
	// State is the agent's, and when it came into it. Published rings when it changes.
	State     func() (supervisor.Phase, time.Time)
	Published *bell.Bell
	// PowerDown drains an elastic node, which slurmctld suspends after its jobs.
	PowerDown func(ctx context.Context, reason string) error
	// Look has the pod looked at, because its machine gives it something else.
	Look func()
	Log  func(level slog.Level, text string, attrs ...slog.Attr)
}

// Cordon knows what Kubernetes wants.
type Cordon struct {
	Options
	mu   sync.Mutex
	self wire.Self
	// given is what the machine gives the node.
	given nodesize.Traits
	// changed says that self has.
	changed chan struct{}
}

// New knows nothing yet.
func New(o Options) *Cordon { return &Cordon{Options: o, changed: make(chan struct{}, 1)} }

// Take takes what Kubernetes knows of this pod.
func (c *Cordon) Take(self wire.Self) {
	given, err := nodesize.MachineTraits(self.Machine, self.Features, self.Topology, self.Weight)
	if err != nil {
		c.Log(slog.LevelWarn, "cannot use what the Kubernetes node gives its Slurm nodes", slog.Any("error", err))
	}
	c.mu.Lock()
	c.self = self
	changed := c.given != given
	c.given = given
	c.mu.Unlock()
	if changed {
		c.Look()
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Traits are what the machine gives the node.
func (c *Cordon) Traits() nodesize.Traits {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.given
}

func (c *Cordon) wantsDrain() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.self.Drain
}

const (
	// unheardTime is how long the agent waits for Kubernetes' word before it looks for the drain of another
	// machine by itself.
	unheardTime = 5 * time.Second
	// firstForeign and lastForeign bound the pauses between looks at somebody else's drain that stands while
	// Kubernetes wants one, too: it may be lifted.
	firstForeign = 2 * time.Second
	lastForeign  = 2 * time.Minute
)

// awaitWish waits until Kubernetes has said something. Meanwhile a drain that is another machine's goes: the
// pod has left that machine, and an agent whose controller is away would keep the drain for ever.
func (c *Cordon) awaitWish(ctx context.Context) bool {
	var late <-chan time.Time
	if c.Machine != "" {
		late = time.After(unheardTime)
	}
	for tries := 0; ; tries++ {
		select {
		case <-ctx.Done():
			return false
		case <-c.changed:
			return true
		case <-late:
			late = nil
			if err := c.liftOthers(ctx); err != nil {
				late = time.After(backoff.Grow(time.Second, tries, time.Minute))
			}
		}
	}
}

var errNotReady = errors.New("the node is not Ready")

// liftOthers lifts a drain whose reason names another machine than the one that the pod runs on.
func (c *Cordon) liftOthers(ctx context.Context) error {
	if state, _ := c.State(); state != supervisor.Ready {
		return errNotReady
	}
	ctx, cancel := context.WithTimeout(ctx, c.Slurm.Limit())
	defer cancel()
	node, err := c.Slurm.Node(ctx, c.Node)
	if err != nil || node == nil || !node.Drained() {
		return err
	}
	reason, own := strings.CutPrefix(node.Reason, reasons.ByKubernetes)
	if machine := wire.DrainedMachine(reason); !own || machine == "" || machine == c.Machine {
		return nil
	}
	c.Log(slog.LevelInfo, "the pod has left the Kubernetes node that wanted no jobs: the node is resumed",
		slog.String("reason", node.Reason), slog.String("machine", c.Machine))
	return c.Slurm.ReinstateNode(ctx, c.Node)
}

// Run brings the node's drain up to date when Kubernetes' wish has changed, and when the node is
// Ready anew: its record may be another one. Where somebody else has drained the node, it looks again now and
// then, because that drain may be lifted while the wish stands.
func (c *Cordon) Run(ctx context.Context) {
	if !c.awaitWish(ctx) {
		return
	}
	var ready, again time.Time // since when the node was Ready for which it was done, and when to look again
	wish, done, tries, foreign := "", false, 0, 0
	for ctx.Err() == nil {
		published := c.Published.Next()
		state, since := c.State()
		now := c.wantsDrain()
		if state == supervisor.Stopping || state == supervisor.Exited {
			return
		}
		changed := !done || now != wish || now != "" && !since.Equal(ready)
		if changed {
			foreign = 0
		}
		if state == supervisor.Ready && (changed || !again.IsZero() && !time.Now().Before(again)) {
			others, err := c.drainAs(ctx, now)
			again = time.Time{}
			switch {
			case err != nil:
				c.Log(slog.LevelDebug, "cannot bring the node's drain up to date with Kubernetes", slog.Any("error", err))
				again, done = time.Now().Add(backoff.Grow(time.Second, tries, time.Minute)), false
				tries++
			case others:
				pause := backoff.Grow(firstForeign, foreign, lastForeign)
				again = time.Now().Add(pause/2 + rand.N(pause))
				foreign++
				ready, wish, done, tries = since, now, true, 0
			default:
				ready, wish, done, tries = since, now, true, 0
			}
		}
		var due <-chan time.Time
		if !again.IsZero() {
			due = time.After(time.Until(again))
		}
		select {
		case <-ctx.Done():
		case <-published:
		case <-c.changed:
		case <-due:
		}
	}
}

// drainAs drains the node for a reason, or lifts such a drain. A drain of somebody else's stays: others says
// that there is one in the wish's way.
func (c *Cordon) drainAs(ctx context.Context, reason string) (others bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Slurm.Limit())
	defer cancel()
	node, err := c.Slurm.Node(ctx, c.Node)
	switch {
	case err != nil:
		return false, err
	case node == nil:
		return false, slurm.ErrNoRecord
	}
	own := node.Drained() && reasons.Of(node.Reason) == reasons.Kubernetes
	switch {
	case c.Elastic && node.Off():
		return false, nil // the pod's end is near
	case reason == "" && own:
		c.Log(slog.LevelInfo, "Kubernetes lets jobs come again: the node is resumed")
		return false, c.Slurm.ReinstateNode(ctx, c.Node)
	case reason != "" && (own && node.Reason != reasons.ByKubernetes+reason || !node.Drained()):
		c.Log(slog.LevelInfo, "Kubernetes wants no jobs on the node: it is drained", slog.String("reason", reason))
		if c.Elastic && node.Elastic() && !node.Is("POWER_DOWN", "POWERING_UP") {
			return false, c.PowerDown(ctx, reasons.ByKubernetes+reason) // the next job gets a pod on another machine
		}
		return false, c.Slurm.DrainNode(ctx, c.Node, reasons.ByKubernetes+reason)
	}
	return reason != "" && !own, nil
}
