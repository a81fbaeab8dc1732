// Package machine does to the node what Kubernetes wants of its machine: it drains the node, and gives it what the machine
// gives its nodes.
package machine

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
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/drains"
)

// Options are what there is to know of the node.
type Options struct {
	// Name is that of the Kubernetes node, empty where it is not known.
	Name   string
	Drains *drains.Drains
	// State is the agent's, and when it came into it. Published rings when it changes.
	State     func() (supervisor.Phase, time.Time)
	Published *bell.Bell
	// Look has the pod looked at, because its machine gives it something else.
	Look func()
	Log  func(level slog.Level, text string, attrs ...slog.Attr)
}

// Machine is what Kubernetes knows of the machine that the pod runs on.
type Machine struct {
	Options
	mu   sync.Mutex
	self wire.Self
	// given is what the machine gives the node.
	given nodesize.Traits
	// changed says that self has.
	changed chan struct{}
}

// New knows nothing yet.
func New(o Options) *Machine { return &Machine{Options: o, changed: make(chan struct{}, 1)} }

// Take takes what Kubernetes knows of this pod.
func (m *Machine) Take(self wire.Self) {
	given, err := nodesize.MachineTraits(self.Machine, self.Features, self.Topology, self.Weight)
	if err != nil {
		m.Log(slog.LevelWarn, "cannot use what the Kubernetes node gives its Slurm nodes", slog.Any("error", err))
	}
	m.mu.Lock()
	m.self = self
	changed := m.given != given
	m.given = given
	m.mu.Unlock()
	if changed {
		m.Look()
	}
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// Traits are what the machine gives the node.
func (m *Machine) Traits() nodesize.Traits {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.given
}

func (m *Machine) wantsDrain() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.self.Drain
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
func (m *Machine) awaitWish(ctx context.Context) bool {
	var late <-chan time.Time
	if m.Name != "" {
		late = time.After(unheardTime)
	}
	for tries := 0; ; tries++ {
		select {
		case <-ctx.Done():
			return false
		case <-m.changed:
			return true
		case <-late:
			late = nil
			if err := m.liftOthers(ctx); err != nil {
				late = time.After(backoff.Grow(time.Second, tries, time.Minute))
			}
		}
	}
}

var errNotReady = errors.New("the node is not Ready")

// liftOthers lifts a drain whose reason names another machine than the one that the pod runs on.
func (m *Machine) liftOthers(ctx context.Context) error {
	if state, _ := m.State(); state != supervisor.Ready {
		return errNotReady
	}
	reason := ""
	lifted, err := m.Drains.LiftIf(ctx, reasons.Kubernetes, func(text string) bool {
		reason = text
		machine := wire.DrainedMachine(strings.TrimPrefix(text, reasons.ByKubernetes))
		return machine != "" && machine != m.Name
	})
	if lifted {
		m.Log(slog.LevelInfo, "the pod has left the Kubernetes node that wanted no jobs: the node is resumed",
			slog.String("reason", reason), slog.String("machine", m.Name))
	}
	if _, foreign := errors.AsType[*drains.ForeignError](err); foreign || errors.Is(err, slurm.ErrNoRecord) {
		return nil
	}
	return err
}

// Run brings the node's drain up to date when Kubernetes' wish has changed, and when the node is
// Ready anew: its record may be another one. Where somebody else has drained the node, it looks again now and
// then, because that drain may be lifted while the wish stands.
func (m *Machine) Run(ctx context.Context) {
	if !m.awaitWish(ctx) {
		return
	}
	var d done
	for ctx.Err() == nil {
		published := m.Published.Next()
		state, since := m.State()
		if state == supervisor.Stopping || state == supervisor.Exited {
			return
		}
		if wish := m.wantsDrain(); state == supervisor.Ready && d.isDue(wish, since, time.Now()) {
			others, err := m.drainAs(ctx, wish)
			if err != nil {
				m.Log(slog.LevelDebug, "cannot bring the node's drain up to date with Kubernetes", slog.Any("error", err))
			}
			d.take(wish, since, others, err, time.Now())
		}
		select {
		case <-ctx.Done():
		case <-published:
		case <-m.changed:
		case <-d.due():
		}
	}
}

// done remembers what was done last, and when to look again.
type done struct {
	// wish is Kubernetes', which the node has had since it was Ready at that time. It is right where is is set.
	wish  string
	ready time.Time
	is    bool
	// again is when to look again, zero for never. tries and foreign count the looks that have failed, and those
	// that have found somebody else's drain.
	again          time.Time
	tries, foreign int
}

// isDue says whether there is something to do for a wish, and a node that has been Ready since then.
func (d *done) isDue(wish string, since, now time.Time) bool {
	if !d.is || wish != d.wish || wish != "" && !since.Equal(d.ready) {
		d.foreign = 0
		return true
	}
	return !d.again.IsZero() && !now.Before(d.again)
}

// take takes what has become of a wish. others says that somebody else's drain is in its way.
func (d *done) take(wish string, since time.Time, others bool, err error, now time.Time) {
	if err != nil {
		d.is, d.again = false, now.Add(backoff.Grow(time.Second, d.tries, time.Minute))
		d.tries++
		return
	}
	*d = done{wish: wish, ready: since, is: true, foreign: d.foreign}
	if others {
		pause := backoff.Grow(firstForeign, d.foreign, lastForeign)
		d.again = now.Add(pause/2 + rand.N(pause))
		d.foreign++
	}
}

// due fires when to look again, never where there is nothing to look at.
func (d *done) due() <-chan time.Time {
	if d.again.IsZero() {
		return nil
	}
	return time.After(time.Until(d.again))
}

// drainAs drains the node for a reason, or lifts such a drain. others says that somebody else's drain is in the
// wish's way.
func (m *Machine) drainAs(ctx context.Context, reason string) (others bool, err error) {
	var changed bool
	if reason == "" {
		changed, err = m.Drains.Lift(ctx, reasons.Kubernetes)
	} else {
		changed, err = m.Drains.Set(ctx, reasons.Kubernetes, reasons.ByKubernetes+reason)
	}
	switch {
	case changed && reason == "":
		m.Log(slog.LevelInfo, "Kubernetes lets jobs come again: the node is resumed")
	case changed:
		m.Log(slog.LevelInfo, "Kubernetes wants no jobs on the node: it is drained", slog.String("reason", reason))
	}
	if _, foreign := errors.AsType[*drains.ForeignError](err); foreign {
		return reason != "", nil
	}
	return false, err
}
