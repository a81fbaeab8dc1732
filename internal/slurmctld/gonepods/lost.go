package gonepods

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/ask"
	"github.com/slurmlet/slurmlet/internal/link/merge"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// ending are jobs that nodes had when they were set DOWN. While slurmctld ends them on other nodes, it needs the
// records of these (node.Answered.Elsewhere).
type ending struct {
	nodes, jobs []string
	// unknown is until when the records stay if slurmctld did not name the jobs: they may be ending.
	unknown time.Time
}

const (
	// remembered is for how long records stay whose jobs slurmctld has not named: the jobs may be ending on other nodes.
	remembered = 10 * time.Minute
	// commentLimit bounds the time, and mostComments the jobs, for comments on jobs that will fail.
	commentLimit = 5 * time.Second
	mostComments = 50
)

// fail sets nodes DOWN whose machines are gone. slurmctld then requeues their jobs, and those that may
// not be requeued fail. The drain makes the agent of a new pod lift it.
func (r *Reconciler) fail(ctx context.Context, reasons map[string]string) {
	if len(reasons) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(reasons))
	changes := func(verb ask.Verb) (all []ask.Change) {
		for _, name := range names {
			all = append(all, ask.Change{Verb: verb, Node: name, Reason: reasons[name]})
		}
		return all
	}
	merge.Make(ctx, r.Slurm, changes(ask.Drain)) // no job begins between the question and the end of all
	jobs, unnamed := r.jobsOn(ctx, names)
	r.expect(names, jobs, unnamed) // slurmctld may set a node DOWN and not say so
	var failed []string
	for change, err := range merge.Make(ctx, r.Slurm, changes(ask.Fail)) {
		if err != nil {
			r.refused(change.Node, err, slog.LevelWarn)
			continue
		}
		failed = append(failed, change.Node)
	}
	if len(failed) == 0 {
		return
	}
	r.Log(slog.LevelWarn,
		"Kubernetes says that machines are gone: their nodes are DOWN, and their jobs are requeued or fail", listOf(failed))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Lost += len(failed)
	for _, name := range failed {
		r.pods.Failed(name, time.Now())
	}
}

// hold notes the jobs of nodes whose pods are gone. slurmctld sets such a node DOWN by itself when SlurmdTimeout is over.
func (r *Reconciler) hold(ctx context.Context, names []string) {
	if len(names) == 0 {
		return
	}
	question, cancel := context.WithTimeout(ctx, r.Slurm.Limit())
	defer cancel()
	jobs, err := r.Slurm.JobsOn(question, hostlist.Of(slices.Values(names)).String())
	if err == nil {
		r.expect(names, jobs, nil)
		return
	}
	for _, name := range names {
		r.refused(name, err, slog.LevelDebug) // so they are new to the next look
	}
}

// expect notes the jobs of nodes that are, or will be, DOWN. Jobs that are known already stay: a node that is DOWN has none.
func (r *Reconciler) expect(names, jobs []string, unnamed error) {
	e := ending{nodes: names, jobs: slices.Clone(jobs)}
	if unnamed != nil {
		e.unknown = time.Now().Add(remembered)
	}
	r.mu.Lock()
	kept := r.pods.Kept()
	r.mu.Unlock()
	r.ending = slices.DeleteFunc(r.ending, func(old ending) bool {
		return !slices.ContainsFunc(old.nodes, func(n string) bool { _, is := kept[n]; return is }) // settled
	})
	for i := range r.ending {
		old := &r.ending[i]
		if !old.concerns(names) {
			continue
		}
		e.jobs = append(e.jobs, old.jobs...)
		if old.unknown.After(e.unknown) {
			e.unknown = old.unknown
		}
		old.nodes = slices.DeleteFunc(slices.Clone(old.nodes), func(n string) bool { return slices.Contains(names, n) })
	}
	slices.Sort(e.jobs)
	e.jobs = slices.Compact(e.jobs)
	r.ending = slices.DeleteFunc(append(r.ending, e), func(e ending) bool {
		return len(e.nodes) == 0 || len(e.jobs) == 0 && e.unknown.IsZero()
	})
}

// jobsOn asks for the jobs of nodes, and comments on those that will fail. It must not hold up the others for long.
func (r *Reconciler) jobsOn(ctx context.Context, names []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, commentLimit)
	defer cancel()
	ids, err := r.Slurm.JobsOn(ctx, hostlist.Of(slices.Values(names)).String())
	if err != nil {
		r.Log(slog.LevelWarn, "slurmctld does not name the jobs whose machines are gone: the node records stay for "+remembered.String(),
			listOf(names), slog.Any("error", err))
		return nil, err
	}
	if err := r.comment(ctx, ids[:min(len(ids), mostComments)]); err != nil {
		r.Log(slog.LevelWarn, "cannot comment on all jobs whose machines are gone", slog.Any("error", err))
	}
	return ids, nil
}

// comment writes why jobs fail that may not be requeued. It comments on those that slurmctld has listed, also with an error.
func (r *Reconciler) comment(ctx context.Context, ids []string) error {
	jobs, err := r.Slurm.Jobs(ctx, ids)
	for i := range jobs {
		if job := &jobs[i]; job.Running() && (!job.Batch || !job.Requeue) {
			r.Log(slog.LevelError,
				"the machine of job "+job.JobID()+" is gone, and the job may not be requeued: it will fail", slog.String("user", job.User))
			err = errors.Join(err,
				r.Slurm.Comment(ctx, job, "slurmlet: Kubernetes says that a machine of the job is gone, and the job may not be requeued"))
		}
	}
	return err
}

// These are why a record stays although no job holds the node.
var (
	errEnding  = errors.New("jobs that ran there are ending on other nodes")
	errUnnamed = errors.New("slurmctld did not name the jobs that ran there: they may be ending on other nodes")
)

// over leaves out the records of nodes whose jobs are ending on other nodes, or may be. Without an answer, none has
// ended.
func (r *Reconciler) over(ctx context.Context, names []string) []string {
	var jobs []string
	for _, e := range r.ending {
		if e.concerns(names) {
			jobs = append(jobs, e.jobs...)
		}
	}
	var completing map[string]bool
	var err error
	if len(jobs) > 0 {
		question, cancel := context.WithTimeout(ctx, r.Slurm.Limit())
		defer cancel()
		completing, err = r.Slurm.Completing(question, jobs)
	}
	kept := map[string]error{}
	r.ending = slices.DeleteFunc(r.ending, func(e ending) bool {
		why := e.why(completing, err)
		if why != nil {
			for _, n := range e.nodes {
				kept[n] = why
			}
		}
		return why == nil && e.concerns(names)
	})
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		if kept[n] != nil {
			r.refused(n, kept[n], slog.LevelDebug)
		}
		return kept[n] != nil
	})
}

func (e ending) concerns(names []string) bool {
	return slices.ContainsFunc(e.nodes, func(n string) bool { return slices.Contains(names, n) })
}

// why says what keeps the records, where something does. completing are the jobs that are ending, unless slurmctld has
// not answered.
func (e ending) why(completing map[string]bool, unanswered error) error {
	switch {
	case time.Now().Before(e.unknown):
		return errUnnamed
	case len(e.jobs) == 0:
		return nil
	case unanswered != nil:
		return unanswered
	case slices.ContainsFunc(e.jobs, func(job string) bool { return completing[job] }):
		return errEnding
	}
	return nil
}
