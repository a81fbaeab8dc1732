package agent

import (
	"context"
	"errors"
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
// be noted before the reconfigure, if that took time or was not noted yet, is noted before
// slurmctld is asked for the last time: the next launch may come at any moment. No answer is
// not "none": a slurmctld without one is asked again, and the limit counts from its first.
func (a *Agent) awaitLaunches(limit time.Duration, noted bool, note func() bool) {
	began, held, silent := time.Now(), false, false
	for answered, tries := began, 0; ; tries++ {
		o, err := a.outgoing()
		quiet := err == nil && o == slurm.Outgoing{}
		if silent && err == nil {
			answered = time.Now()
		}
		silent = err != nil
		switch {
		case err != nil && time.Since(began) >= limitOfSilence(err, limit):
			a.tell(slog.LevelWarn, "cannot ask whether jobs are being launched; the reconfigure does not wait for them", slog.Any("error", err))
			return
		case err != nil:
			a.rest(grow(firstLook, tries, lastTry))
			continue
		case quiet && noted:
			return
		case time.Since(answered) >= limit:
			a.tell(slog.LevelWarn, "slurmctld reconfigures while it tells nodes of jobs, or does not tell of its nodes: batch jobs that it launches now may fail",
				slog.Int("sending", o.Sending), slog.Int("queued", o.Queued), slog.Bool("nodes", noted))
			return
		case quiet && note():
			noted = true
			continue
		case !quiet:
			noted = false
		}
		if !quiet && !held && time.Since(answered) >= holdAfter {
			a.holdJobs()
			held = true
			continue
		}
		a.rest(firstLook)
	}
}

// limitOfSilence: a slurmctld that does not answer would not take a configuration either.
func limitOfSilence(err error, limit time.Duration) time.Duration {
	if errors.Is(err, slurm.ErrUnreachable) {
		return takeLimit
	}
	return limit
}

func (a *Agent) outgoing() (slurm.Outgoing, error) {
	ctx, cancel := context.WithTimeout(context.Background(), questionLimit)
	defer cancel()
	return a.client.Outgoing(ctx)
}

// rest is cut short by the agent's end.
func (a *Agent) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-a.over:
	}
}

// holdJobs keeps slurmctld from starting jobs until the reconfigure is over. Whatever
// becomes of the agent, a minute later they are started again.
func (a *Agent) holdJobs() {
	ctx, cancel := context.WithTimeout(context.Background(), questionLimit)
	defer cancel()
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
