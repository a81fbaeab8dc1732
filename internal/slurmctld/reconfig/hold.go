package reconfig

import (
	"context"
	"log/slog"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
)

const (
	// holdAfter is how long slurmctld may go on to start jobs. Where it always has
	// launches to send, there is no moment for a reconfigure.
	holdAfter = 3 * time.Second
	// holdReservation is the reservation that keeps jobs from being started.
	holdReservation = "slurmlet-reconfigure"
)

// holdJobs keeps slurmctld from starting jobs until the reconfigure is over. Whatever
// becomes of the agent, slurmctld starts them again a minute later.
func (r *Reloader) holdJobs(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, node.QuestionLimit)
	defer cancel()
	if err := r.Client.Reserve(ctx, holdReservation); err != nil {
		r.Log(slog.LevelWarn, "cannot keep jobs from being started during a reconfigure", slog.Any("error", err))
		return
	}
	r.held.Store(true)
}

// releaseJobs lets them start again, also when the agent ends. Without an answer they start
// when the minute is over.
func (r *Reloader) releaseJobs() {
	if r.Programs != nil {
		r.Programs.Allow()
	}
	if !r.held.CompareAndSwap(true, false) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), node.QuestionLimit)
	defer cancel()
	if err := r.Client.Unreserve(ctx, holdReservation); err != nil {
		r.Log(slog.LevelWarn, "cannot delete the reservation: slurmctld starts no jobs for up to a minute",
			slog.String("reservation", holdReservation), slog.Any("error", err))
	}
}
