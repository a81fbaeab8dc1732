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

// holdAccounts keeps accounts from being changed until the reconfigure is over. A long change of theirs does not keep an
// edit from being live.
func (r *Reloader) holdAccounts(ctx context.Context) {
	if r.HoldAccounts == nil || r.accounts.Load() != nil {
		return
	}
	release, err := r.HoldAccounts(ctx)
	if err != nil {
		r.Log(slog.LevelWarn, "slurmctld reconfigures while accounts are changed", slog.Any("error", err))
		return
	}
	r.accounts.Store(&release)
}

// releaseJobs lets them start again, and accounts be changed, also when the agent ends. Without an answer jobs start
// when the minute is over.
func (r *Reloader) releaseJobs() {
	if release := r.accounts.Swap(nil); release != nil {
		(*release)()
	}
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
