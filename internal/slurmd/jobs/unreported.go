package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/pod/notify"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
)

// A slurmstepd whose tasks have ended reports to slurmctld how, and tries again every 15 s, without an end (mgr.c,
// RETRY_DELAY). Until then slurmctld counts the job as running. It would run twice if it were requeued meanwhile.

// Unreported are those of the jobs that have ended here, as slurmstepd has still to report.
func (n *Node) Unreported(jobs []slurm.Job, steps []string) []slurm.Job {
	var all []slurm.Job
	busy := sync.OnceValue(notify.Parents)
	for i := range jobs {
		if job := &jobs[i]; job.Running() && n.isUnreported(job, steps, busy) {
			all = append(all, *job)
		}
	}
	return all
}

// isUnreported: a batch job ends with its script, which may have run elsewhere; another one with its last step.
func (n *Node) isUnreported(job *slurm.Job, steps []string, busy func() map[int]bool) bool {
	id := fmt.Sprint(job.ID)
	if job.Batch {
		return slices.Contains(steps, id+spool.Batch) && n.Spool.HasNoTask(id+spool.Batch, busy)
	}
	its := slices.DeleteFunc(slices.Clone(steps), func(step string) bool {
		return !strings.HasPrefix(step, id+".") || strings.HasSuffix(step, spool.Extern)
	})
	return len(its) > 0 && !slices.ContainsFunc(its, func(step string) bool { return !n.Spool.HasNoTask(step, busy) })
}

// errUnreported says that jobs were left alone, because slurmstepd has still to report their end.
func errUnreported(jobs []slurm.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	var names []string
	for i := range jobs {
		names = append(names, jobs[i].JobID())
	}
	return fmt.Errorf("%s: %s", node.UnreportedReason, strings.Join(names, ", "))
}

// requeueUnreported ends the jobs of a pod that has no more time. How they have ended nobody will hear.
func (n *Node) requeueUnreported(ctx context.Context, jobs []slurm.Job) error {
	var faults []error
	for i := range jobs {
		job, user := &jobs[i], slog.String("user", jobs[i].User)
		text := fmt.Sprintf("slurmlet: the job had ended when the pod of %s was terminated, and slurmctld had not heard of it", n.Name)
		faults = append(faults, n.Slurm.Comment(ctx, job, text))
		if job.Batch && job.Requeue {
			n.Log(slog.LevelWarn,
				"job "+job.JobID()+
					" has ended, and slurmstepd could not report it to slurmctld in time: the job is requeued, and runs twice", user)
			faults = append(faults, n.Slurm.RequeueJob(ctx, job))
		} else {
			n.Log(slog.LevelError,
				"job "+job.JobID()+" has ended, and slurmstepd could not report it to slurmctld in time: it counts as failed", user)
		}
	}
	return errors.Join(faults...)
}
