package record

import (
	"context"
	"log/slog"
	"strings"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/gres"
	"github.com/slurmlet/slurmlet/internal/slurmd/jobs"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
)

// AskNode asks for the record on the way up, and for what slurmctld knows of GRES where the record has not what slurmd
// has registered.
func (r *Record) AskNode(ctx context.Context, act node.AskNode) lifecycle.Event {
	e := r.Answer(ctx, act.Number, act.Need)
	if e.Err == nil && e.Node != nil {
		e.Err = r.knownGres(ctx, e.Node)
		e.Late = isLate(e.Err)
	}
	if e.Err == nil && e.Node != nil && e.Node.Busy() {
		e.Steps = len(r.Spool.Steps())
	}
	return e
}

// knownGres asks what slurmctld knows of at all when its record has not what
// was registered: of other names it says nothing.
func (r *Record) knownGres(ctx context.Context, n *slurm.Node) error {
	if !r.Gres.Differs(gres.Recorded(n.Gres), nil) {
		return nil
	}
	cluster, err := r.Slurm.Config(ctx)
	if err != nil {
		return err
	}
	n.Detail().GresTypes = strings.Split(cluster["GresTypes"], ",")
	return nil
}

// AskJobs asks what there is to know about the record on the way down.
func (r *Record) AskJobs(ctx context.Context, act node.AskJobs) lifecycle.Event {
	r.Begin()
	e := r.askHere(ctx, act)
	// a CLOUD node's record stays
	if e.Err == nil && e.Node != nil && (e.Doubtful || !e.Node.Busy()) && len(e.Jobs) == 0 && !e.Node.Elastic() {
		e.Elsewhere, e.Err = r.EndingElsewhere(ctx)
		e.Late = isLate(e.Err)
	}
	return e
}

// askHere asks for the record, and for the jobs that hold the node.
func (r *Record) askHere(ctx context.Context, act node.AskJobs) node.Answered {
	need := act.Need
	need.Jobs = false // of a node that may be idle, slurmctld's answer to its deletion says so
	before := r.Spool.Steps()
	r.Add(spool.Jobs(before))
	e := r.Answer(ctx, act.Number, need)
	steps := r.Spool.Steps()
	if len(before) > 0 && len(steps) == 0 && e.Err == nil { // the last step has ended meanwhile
		e = r.Answer(ctx, act.Number, need)
	}
	r.Add(spool.Jobs(steps))
	e.Steps = len(steps)
	if e.Err != nil || e.Node == nil || !e.Node.Busy() {
		return e
	}
	e.Doubtful = jobs.MayBeIdle(e.Node) && e.Steps == 0
	var err error
	if e.Doubtful && !act.Need.Jobs && !r.SackdSpeaks() {
		// A suspended job would not keep slurmctld from deleting the record.
		e.Jobs, err = r.Known(ctx, steps)
		e.Doubtful = err == nil && len(e.Jobs) == 0
		return e
	}
	e.Jobs, e.Counted, err = r.Holding(ctx, e.Node, steps, act.Need.Jobs)
	if err != nil {
		r.Log(slog.LevelDebug, "cannot find out which jobs run here", slog.Any("error", err)) // only shown
	}
	e.Unreported = len(r.Unreported(e.Jobs, steps))
	return e
}
