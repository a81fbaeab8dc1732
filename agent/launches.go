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

const (
	// holdAfter is how long slurmctld may go on to start jobs: where it always has
	// launches to tell of, there is no moment for a reconfigure.
	holdAfter = 3 * time.Second
	// hold is the reservation that keeps jobs from being started.
	hold = "slurmlet-reconfigure"
)

// awaitLaunches waits until slurmctld has told the nodes what it had to. What is to
// be done before the reconfigure, if that took time, is done before slurmctld is
// asked for the last time: the next launch may come at any moment. Where it cannot
// be known, nobody is kept from an edit.
func (a *Agent) awaitLaunches(limit time.Duration, before func()) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+questionLimit)
	defer cancel()
	began, done := time.Now(), true
	patience := time.After(holdAfter)
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
			select {
			case <-patience:
				a.holdJobs(ctx)
			case <-time.After(firstLook):
			}
		}
	}
}

// holdJobs keeps slurmctld from starting jobs until the reconfigure is over. Whatever
// becomes of the agent, a minute later they are started again.
func (a *Agent) holdJobs(ctx context.Context) {
	if err := a.client.Reserve(ctx, hold); err != nil {
		a.tell(slog.LevelWarn, "cannot keep jobs from being started during a reconfigure", slog.Any("error", err))
		return
	}
	a.conf.holding.Store(true)
}

// releaseJobs lets them start again. Without an answer they do when the minute is over.
func (a *Agent) releaseJobs() {
	if !a.conf.holding.CompareAndSwap(true, false) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), questionLimit)
	defer cancel()
	if err := a.client.Unreserve(ctx, hold); err != nil {
		a.tell(slog.LevelWarn, "jobs are held for up to a minute", slog.String("reservation", hold), slog.Any("error", err))
	}
}
