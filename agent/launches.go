package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// A reconfigure drops what slurmctld has to tell the nodes, and the answers that
// it waits for. A batch job whose launch is among it does not begin: slurmctld
// counts it as running until slurmd registers much later, and fails it then, or
// slurmd, which cannot confirm that it has the launch, cancels it. It is requeued
// only if it may be.

const (
	// sendLimit is how long a reconfigure waits for messages that are on their way.
	// A slurmd that reconfigures itself answers after five seconds; one that is
	// dead, not at all.
	sendLimit = 10 * time.Second
	// queueLimit is how long for those in the queue: what is still there, while
	// none is on its way, was sent before, and is no launch.
	queueLimit = time.Second
)

// awaitLaunches waits until slurmctld has told the nodes what it had to, and says
// whether that took time. Where it cannot be known, nobody is kept from an edit.
func (a *Agent) awaitLaunches() (waited bool) {
	ctx, cancel := context.WithTimeout(context.Background(), sendLimit+questionLimit)
	defer cancel()
	began := time.Now()
	for attempt := 0; ; attempt++ {
		o, err := a.client.Outgoing(ctx)
		since := time.Since(began)
		switch {
		case err != nil:
			a.tell(slog.LevelWarn, "cannot ask whether jobs are being launched; the reconfigure does not wait for them", slog.Any("error", err))
			return false
		case holds(o, since):
			<-time.After(grow(firstLook, attempt, time.Second))
			continue
		case o.Sending > 0:
			a.tell(slog.LevelWarn, "slurmctld reconfigures while it tells nodes of jobs: batch jobs that it launches now may fail",
				slog.Int("messages", o.Sending), slog.Duration("waited", since))
		}
		return attempt > 0
	}
}

// holds says whether a reconfigure waits longer.
func holds(o slurm.Outgoing, waited time.Duration) bool {
	switch {
	case o.Sending > 0:
		return waited < sendLimit
	case o.Queued > 0:
		return waited < queueLimit
	}
	return false
}
