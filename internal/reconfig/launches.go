package reconfig

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/slurmlet/slurmlet/internal/backoff"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// A reconfigure drops the messages that slurmctld has for the nodes, and the answers that it
// waits for. A batch job whose launch is among them does not begin: slurmctld counts it as
// running until slurmd registers much later, and fails it then; or slurmd cannot confirm that
// it has the launch, and cancels the job. The job is requeued only if it may be.

const (
	// holdAfter is how long slurmctld may go on to start jobs. Where it always has
	// launches to send, there is no moment for a reconfigure.
	holdAfter = 3 * time.Second
	// hold is the reservation that keeps jobs from being started.
	hold = "slurmlet-reconfigure"
)

// awaitLaunches waits until slurmctld has sent the nodes what it had for them, and notes the
// node starts before. It returns a lifecycle.InUse if the checked set cannot be used after all.
func (r *Reloader) awaitLaunches(ctx context.Context, limit time.Duration) error {
	// A slurmd may have been started meanwhile.
	r.untilQuiet(ctx, limit, r.attempt.known().starts != nil, func() bool { return r.noteStarts(ctx) })
	err := r.mayGo(ctx, r.attempt.known().removed) // and jobs may have come
	if err != nil {
		r.releaseJobs()
	}
	return err
}

// ReconfigureAgain has slurmctld reconfigure with what is live, at a moment that loses no launch.
func (r *Reloader) ReconfigureAgain(ctx context.Context) error {
	r.untilQuiet(ctx, lifecycle.SendLimit, true, func() bool { return true })
	defer r.releaseJobs()
	return r.Client.Reconfigure(ctx)
}

// untilQuiet: what note notes before the reconfigure, if that took time or was not noted
// yet, is noted before slurmctld is asked for the last time: the next launch may come at any
// moment. No answer is not "none": a slurmctld without one is asked again, and the limit
// counts from its first.
func (r *Reloader) untilQuiet(ctx context.Context, limit time.Duration, noted bool, note func() bool) {
	began, held, silent := time.Now(), false, false
	for answered, tries := began, 0; ctx.Err() == nil; tries++ {
		o, err := r.outgoing(ctx)
		quiet := err == nil && o == slurm.Outgoing{}
		if silent && err == nil {
			answered = time.Now()
		}
		silent = err != nil
		switch {
		case err != nil && time.Since(began) >= limitOfSilence(err, limit):
			r.Log(slog.LevelWarn, "cannot ask whether jobs are being launched; the reconfigure does not wait for them", slog.Any("error", err))
			return
		case err != nil:
			pause(ctx, backoff.Grow(lifecycle.FirstLook, tries, backoff.LastTry))
			continue
		case quiet && noted:
			return
		case time.Since(answered) >= limit:
			r.Log(slog.LevelWarn, "slurmctld reconfigures while it sends jobs to nodes, or does not list its nodes: batch jobs that it launches now may fail",
				slog.Int("sending", o.Sending), slog.Int("queued", o.Queued), slog.Bool("nodes", noted))
			return
		case quiet && note():
			noted = true
			continue
		case !quiet:
			noted = false
		}
		if !quiet && !held && time.Since(answered) >= holdAfter {
			r.holdJobs(ctx)
			held = true
			continue
		}
		pause(ctx, lifecycle.FirstLook)
	}
}

// limitOfSilence: a slurmctld that does not answer would not take a configuration either.
func limitOfSilence(err error, limit time.Duration) time.Duration {
	if errors.Is(err, slurm.ErrUnreachable) {
		return lifecycle.TakeLimit
	}
	return limit
}

func (r *Reloader) outgoing(ctx context.Context) (slurm.Outgoing, error) {
	ctx, cancel := context.WithTimeout(ctx, lifecycle.QuestionLimit)
	defer cancel()
	return r.Client.Outgoing(ctx)
}

// holdJobs keeps slurmctld from starting jobs until the reconfigure is over. Whatever
// becomes of the agent, slurmctld starts them again a minute later.
func (r *Reloader) holdJobs(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lifecycle.QuestionLimit)
	defer cancel()
	if err := r.Client.Reserve(ctx, hold); err != nil {
		r.Log(slog.LevelWarn, "cannot keep jobs from being started during a reconfigure", slog.Any("error", err))
		return
	}
	r.held.Store(true)
}

// releaseJobs lets them start again, also when the agent ends. Without an answer they start
// when the minute is over.
func (r *Reloader) releaseJobs() {
	if !r.held.CompareAndSwap(true, false) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lifecycle.QuestionLimit)
	defer cancel()
	if err := r.Client.Unreserve(ctx, hold); err != nil {
		r.Log(slog.LevelWarn, "cannot delete the reservation: slurmctld starts no jobs for up to a minute", slog.String("reservation", hold), slog.Any("error", err))
	}
}
