package agent

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/nodesize"
)

// shorter is how much sooner than the grace period a deadline must be to count: Kubernetes tells whole
// seconds, and SIGTERM comes some time after the deletion.
const shorter = 3 * time.Second

// setSelf takes what Kubernetes knows of this pod.
func (m *membership) setSelf(self wire.Self) {
	given, err := nodesize.MachineTraits(self.Machine, self.Features, self.Topology, self.Weight)
	if err != nil {
		m.agent.log(slog.LevelWarn, "cannot use what the Kubernetes node gives its Slurm nodes", slog.Any("error", err))
	}
	m.mu.Lock()
	before := m.self
	m.self = self
	changed := m.given != given
	m.given = given
	m.mu.Unlock()
	if changed && m.agent.pod != nil {
		m.agent.pod.Do(m.agent.pod.Look)
	}
	m.takeDeadline(self, before)
	select {
	case m.cordon <- struct{}{}:
	default:
	}
}

// takeDeadline takes the time that a deletion grants where it is less than the pod's grace period.
func (m *membership) takeDeadline(self, before wire.Self) {
	const source = "the pod's deletion in Kubernetes"
	now, grace, granted := time.Now(), m.agent.Config.Grace, time.Duration(self.GraceSeconds)*time.Second
	switch at := self.Deadline; {
	case at.IsZero() || at.Equal(before.Deadline) && self.GraceSeconds == before.GraceSeconds:
	case granted > 0 && granted < grace:
		m.agent.log(slog.LevelInfo, "Kubernetes deletes the pod before its grace period is over", slog.Duration("granted", granted))
		m.agent.post(lifecycle.DeadlineSet{At: now, Grace: granted, Source: source})
	case granted == 0 && at.Before(now.Add(grace-shorter)):
		m.agent.log(slog.LevelInfo, "Kubernetes deletes the pod before its grace period is over", slog.Time("deadline", at))
		m.agent.post(lifecycle.DeadlineSet{At: now, Deadline: at, Source: source})
	}
}

// traits are what the machine gives the node.
func (m *membership) traits() nodesize.Traits {
	if m == nil {
		return nodesize.Traits{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.given
}

func (m *membership) wantsDrain() string {
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
func (m *membership) awaitWish(ctx context.Context) bool {
	var late <-chan time.Time
	if m.agent.Config.Machine != "" {
		late = time.After(unheardTime)
	}
	for tries := 0; ; tries++ {
		select {
		case <-ctx.Done():
			return false
		case <-m.cordon:
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
func (m *membership) liftOthers(ctx context.Context) error {
	a := m.agent
	if a.status.Load().State != lifecycle.Ready {
		return errNotReady
	}
	ctx, cancel := context.WithTimeout(ctx, a.questionLimit())
	defer cancel()
	node, err := a.client.Node(ctx, a.Config.NodeName)
	if err != nil || node == nil || !node.Drained() {
		return err
	}
	reason, own := strings.CutPrefix(node.Reason, reasons.ByKubernetes)
	if machine := wire.DrainedMachine(reason); !own || machine == "" || machine == a.Config.Machine {
		return nil
	}
	a.log(slog.LevelInfo, "the pod has left the Kubernetes node that wanted no jobs: the node is resumed", slog.String("reason", node.Reason), slog.String("machine", a.Config.Machine))
	return a.client.ReinstateNode(ctx, a.Config.NodeName)
}

// followCordon brings the node's drain up to date when Kubernetes' wish has changed, and when the node is
// Ready anew: its record may be another one. Where somebody else has drained the node, it looks again now and
// then, because that drain may be lifted while the wish stands.
func (m *membership) followCordon(ctx context.Context) {
	if !m.awaitWish(ctx) {
		return
	}
	var ready, again time.Time // since when the node was Ready for which it was done, and when to look again
	wish, done, tries, foreign := "", false, 0, 0
	for ctx.Err() == nil {
		published := m.agent.published.Next()
		s, now := m.agent.status.Load(), m.wantsDrain()
		if s.State == lifecycle.Stopping || s.State == lifecycle.Exited {
			return
		}
		changed := !done || now != wish || now != "" && !s.Since.Equal(ready)
		if changed {
			foreign = 0
		}
		if s.State == lifecycle.Ready && (changed || !again.IsZero() && !time.Now().Before(again)) {
			others, err := m.drainAs(ctx, now)
			again = time.Time{}
			switch {
			case err != nil:
				m.agent.log(slog.LevelDebug, "cannot bring the node's drain up to date with Kubernetes", slog.Any("error", err))
				again, done = time.Now().Add(backoff.Grow(time.Second, tries, time.Minute)), false
				tries++
			case others:
				pause := backoff.Grow(firstForeign, foreign, lastForeign)
				again = time.Now().Add(pause/2 + rand.N(pause))
				foreign++
				ready, wish, done, tries = s.Since, now, true, 0
			default:
				ready, wish, done, tries = s.Since, now, true, 0
			}
		}
		var due <-chan time.Time
		if !again.IsZero() {
			due = time.After(time.Until(again))
		}
		select {
		case <-ctx.Done():
		case <-published:
		case <-m.cordon:
		case <-due:
		}
	}
}

// drainAs drains the node for a reason, or lifts such a drain. A drain of somebody else's stays: others says
// that there is one in the wish's way.
func (m *membership) drainAs(ctx context.Context, reason string) (others bool, err error) {
	a := m.agent
	ctx, cancel := context.WithTimeout(ctx, a.questionLimit())
	defer cancel()
	node, err := a.client.Node(ctx, a.Config.NodeName)
	switch {
	case err != nil:
		return false, err
	case node == nil:
		return false, errNoRecord
	}
	own := node.Drained() && strings.HasPrefix(node.Reason, reasons.ByKubernetes)
	switch {
	case a.Config.Elastic && node.Off():
		return false, nil // the pod's end is near
	case reason == "" && own:
		a.log(slog.LevelInfo, "Kubernetes lets jobs come again: the node is resumed")
		return false, a.client.ReinstateNode(ctx, a.Config.NodeName)
	case reason != "" && (own && node.Reason != reasons.ByKubernetes+reason || !node.Drained()):
		a.log(slog.LevelInfo, "Kubernetes wants no jobs on the node: it is drained", slog.String("reason", reason))
		if a.Config.Elastic && node.Elastic() && !node.Is("POWER_DOWN", "POWERING_UP") {
			return false, a.powerDown(ctx, reasons.ByKubernetes+reason) // the next job gets a pod on another machine
		}
		return false, a.client.DrainNode(ctx, a.Config.NodeName, reasons.ByKubernetes+reason)
	}
	return reason != "" && !own, nil
}
