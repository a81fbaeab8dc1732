package agent

import (
	"log/slog"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// shorter is how much sooner than the grace period a deadline must be to count: Kubernetes tells whole
// seconds, and SIGTERM comes some time after the deletion.
const shorter = 3 * time.Second

// setSelf takes what Kubernetes knows of this pod.
func (m *membership) setSelf(self wire.Self) {
	m.mu.Lock()
	before := m.self
	m.self = self
	m.mu.Unlock()
	m.agent.node.Take(self)
	m.takeDeadline(self, before)
}

// takeDeadline takes the time that a deletion grants where it is less than the pod's grace period.
func (m *membership) takeDeadline(self, before wire.Self) {
	const source = "the pod's deletion in Kubernetes"
	now, grace, granted := time.Now(), m.agent.Config.Grace, time.Duration(self.GraceSeconds)*time.Second
	switch at := self.Deadline; {
	case at.IsZero() || at.Equal(before.Deadline) && self.GraceSeconds == before.GraceSeconds:
	case granted > 0 && granted < grace:
		m.agent.log(slog.LevelInfo, "Kubernetes deletes the pod before its grace period is over", slog.Duration("granted", granted))
		m.agent.post(deadlines.DeadlineSet{At: now, Grace: granted, Source: source})
	case granted == 0 && at.Before(now.Add(grace-shorter)):
		m.agent.log(slog.LevelInfo, "Kubernetes deletes the pod before its grace period is over", slog.Time("deadline", at))
		m.agent.post(deadlines.DeadlineSet{At: now, Deadline: at, Source: source})
	}
}
