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

// sendLimit is how long a reconfigure waits. A slurmd that reconfigures itself
// answers afterwards, five seconds later where DNS does not answer it; one that is
// dead, not at all, and what is for it stays in the queue.
const sendLimit = 10 * time.Second

// keySendLimit is the same for new keys, which come to all daemons of a cluster at
// once: slurmd answers late, launches pile up, and are told in bursts until they have
// become few again. Nobody waits for keys; both kinds are accepted meanwhile.
const keySendLimit = 40 * time.Second

// awaitLaunches waits until slurmctld has told the nodes what it had to. What is to
// be done before the reconfigure, if that took time, is done before slurmctld is
// asked for the last time: the next launch may come at any moment. Where it cannot
// be known, nobody is kept from an edit.
func (a *Agent) awaitLaunches(limit time.Duration, before func()) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+questionLimit)
	defer cancel()
	began, done := time.Now(), true
	for {
		o, err := a.client.Outgoing(ctx)
		quiet := o == slurm.Outgoing{}
		switch {
		case err != nil:
			a.tell(slog.LevelWarn, "cannot ask whether jobs are being launched; the reconfigure does not wait for them", slog.Any("error", err))
			return
		case quiet && done:
			return
		case quiet:
			before()
			done = true
		case time.Since(began) >= limit:
			a.tell(slog.LevelWarn, "slurmctld reconfigures while it tells nodes of jobs: batch jobs that it launches now may fail",
				slog.Int("sending", o.Sending), slog.Int("queued", o.Queued))
			return
		default:
			done = false
			<-time.After(firstLook)
		}
	}
}
