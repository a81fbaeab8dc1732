package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
)

// DeadSteps is SLURMLET_DEAD_STEPS: what becomes of a job that has lost a slurmstepd.
type DeadSteps string

// What becomes of it.
const (
	DeadStepsEnd     DeadSteps = "end"     // it is cancelled
	DeadStepsRequeue DeadSteps = "requeue" // a batch job that may be is requeued, as after a node's failure
	DeadStepsKeep    DeadSteps = "keep"    // it is left alone
)

// ParseDeadSteps reads it.
func ParseDeadSteps(text string) (DeadSteps, error) {
	switch d := DeadSteps(text); d {
	case DeadStepsEnd, DeadStepsRequeue, DeadStepsKeep:
		return d, nil
	}
	return "", errors.New("want end, requeue or keep")
}

// Orphans are the steps that have lost their slurmstepds.
type Orphans struct {
	*Node
	Do DeadSteps
	// Count counts them since the container's start.
	Count atomic.Int64
	// Ended is called when the job of one has been ended: its socket stays, and nobody listens on it.
	Ended func()
}

// endingPatience is how long slurmctld may be away when a job is to be ended.
const endingPatience = time.Hour

// End has slurmctld end the job of a step that has lost its slurmstepd:
// nobody else reports that, and the job would be RUNNING until its time is over.
// The whole job, because cancelling a step asks its slurmstepd, and srun, which
// gets the end from slurmctld, exits with 0 (24.11.5).
func (o *Orphans) End(step cgroup.StepOrphaned) {
	ctx, cancel := context.WithTimeout(context.Background(), endingPatience)
	defer cancel()
	o.Slurm.UntilOver(ctx, "cannot end the job of step "+step.String()+", which is without slurmstepd, yet",
		func(ctx context.Context) error {
			said, err := o.endJob(ctx, step)
			if err == nil {
				o.logOrphaned(step, said)
				o.Ended()
			}
			return err
		})
}

func (o *Orphans) logOrphaned(step cgroup.StepOrphaned, said string) {
	if said == "" {
		return // it has ended in order; only its cgroup was left
	}
	o.Count.Add(1)
	o.Log(slog.LevelError, "the slurmstepd of a step has died: "+said, slog.String("step", step.String()))
}

// endJob returns what was done, nothing if slurmctld knows already that the
// step is over.
func (o *Orphans) endJob(ctx context.Context, step cgroup.StepOrphaned) (string, error) {
	job, err := o.Slurm.Job(ctx, step.Job)
	if err != nil || job == nil || !job.Running() {
		return "", err
	}
	if !step.Populated {
		if said, ends, err := o.judgeEmpty(ctx, step.StepID); !ends {
			return said, err
		}
	}
	if o.Do == DeadStepsKeep {
		return "its job is left alone (SLURMLET_DEAD_STEPS=keep)", nil
	}
	comment := fmt.Sprintf("slurmlet: slurmstepd of step %s.%s died on %s", job.JobID(), step.Step, o.Name)
	if err := o.Slurm.Comment(ctx, job, comment); err != nil {
		return "", err
	}
	if o.Do == DeadStepsRequeue && job.Batch && job.Requeue {
		return "its job is requeued", o.Slurm.RequeueJob(ctx, job)
	}
	return "its job is cancelled", o.Slurm.CancelJob(ctx, job)
}

// judgeEmpty distinguishes a slurmstepd that died with all its processes from one that
// has ended in order, and could not remove its cgroup.
func (o *Orphans) judgeEmpty(ctx context.Context, id cgroup.StepID) (said string, ends bool, err error) {
	step, err := o.Slurm.Step(ctx, id.String())
	switch {
	case err != nil || step == nil || !step.Running:
		return "", false, err
	case step.Nodes > 1:
		// It may have ended in order here, and go on elsewhere.
		return fmt.Sprintf("it runs on %d nodes and had no processes left here, so its job is left alone", step.Nodes), false, nil
	}
	return "", true, nil
}
