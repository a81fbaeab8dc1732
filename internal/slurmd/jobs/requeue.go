package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Requeuer ends the jobs of a node whose pod ends.
type Requeuer struct {
	*Holders
	// Signal is sent to jobs ahead of the end.
	Signal Signal
	// EndTasks signals the tasks of the jobs that are picked by their numbers, and of no job: "".
	EndTasks func(signal unix.Signal, which func(job string) bool) error
}

// Requeue requeues what may be, and logs what may not: it has until
// the node is set DOWN. The jobs whose steps run here come first, because slurmctld knows them
// by their numbers. All jobs are looked through for others if any still runs. Jobs that slurmstepd
// has still to report are left alone, unless last says that it has no more time.
func (r *Requeuer) Requeue(ctx context.Context, last bool) error {
	steps := r.Spool.Steps()
	known, err := r.Of(ctx, steps)
	unreported := r.Unreported(known, steps)
	isUnreported := func(j slurm.Job) bool { return contains(unreported, fmt.Sprint(j.ID)) }
	if err == nil {
		err = r.requeueAll(ctx, slices.DeleteFunc(slices.Clone(known), isUnreported))
	}
	if err == nil && last {
		err = r.requeueUnreported(ctx, unreported)
	} else if err == nil {
		err = errUnreported(unreported)
	}
	if err != nil {
		return err
	}
	if len(known) > 0 {
		node, err := r.Slurm.Glance(ctx, r.Name)
		if err != nil || node != nil && !node.Allocated() {
			return err
		}
	}
	all, err := r.Here(ctx)
	if err != nil {
		return err
	}
	return r.requeueAll(ctx, slices.DeleteFunc(all, func(j slurm.Job) bool { return contains(known, fmt.Sprint(j.ID)) }))
}

func (r *Requeuer) requeueAll(ctx context.Context, jobs []slurm.Job) error {
	var faults []error
	for i := range jobs {
		if job := &jobs[i]; job.Running() {
			faults = append(faults, r.requeue(ctx, job))
		}
	}
	return errors.Join(faults...)
}

func (r *Requeuer) requeue(ctx context.Context, job *slurm.Job) error {
	if job.Batch && job.Requeue {
		r.Log(slog.LevelWarn, "the pod's time is over: requeueing job "+job.JobID(), slog.String("user", job.User))
		return r.Slurm.RequeueJob(ctx, job)
	}
	text := fmt.Sprintf("slurmlet: the pod of %s was terminated, and the job may not be requeued", r.Name)
	if !strings.Contains(job.AdminComment, text) { // else an earlier try has written it
		r.Log(slog.LevelError, "the pod's time is over, and job "+job.JobID()+" may not be requeued: it will fail",
			slog.String("user", job.User))
	}
	return r.Slurm.Comment(ctx, job, text)
}

// SignalAll sends SLURMLET_JOB_SIGNAL to each job that runs here, once.
func (r *Requeuer) SignalAll() {
	sent := map[string]bool{}
	r.Slurm.UntilOver(context.Background(), "cannot signal the jobs yet", func(ctx context.Context) error {
		jobs, err := r.Here(ctx)
		if err != nil {
			return err
		}
		var faults []error
		for i := range jobs {
			job := &jobs[i]
			if sent[job.JobID()] || !job.Running() {
				continue
			}
			err := r.Slurm.SignalJob(ctx, job, r.Signal.Name, r.Signal.Batch)
			sent[job.JobID()] = err == nil
			faults = append(faults, err)
			if err == nil {
				r.Log(slog.LevelInfo, "signalled job "+job.JobID(), slog.String("signal", r.Signal.Name))
			}
		}
		return errors.Join(faults...)
	})
}

// KillRequeued kills what runs here of jobs that slurmctld has ended, and that
// did not end when they were asked to.
func (r *Requeuer) KillRequeued() {
	r.Slurm.UntilOver(context.Background(), "cannot find out which jobs have been requeued", func(ctx context.Context) error {
		jobs, err := r.Of(ctx, r.Spool.Steps())
		if err == nil && len(jobs) == 0 {
			jobs, err = r.Here(ctx)
		}
		if err != nil {
			return err
		}
		var running []string
		for _, job := range jobs {
			if job.Running() {
				running = append(running, fmt.Sprint(job.ID))
			}
		}
		return r.EndTasks(unix.SIGKILL, func(id string) bool { return id != "" && !slices.Contains(running, id) })
	})
}
