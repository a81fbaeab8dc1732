package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// A container that ends closes the connections of its slurmstepds to srun in order. slurmctld
// notifies srun that the step is missing here, and leaves the rest to srun; srun tests the
// connection, finds none to test, and waits until the job's time is over (step_launch.c,
// 24.11.5 and 26.05.5). So the agent ends such a job, as a node's failure would.

// endLostSteps ends the jobs whose steps have died with an earlier container, if srun has not
// noticed in the time that it needs.
func (s *Stale) endLostSteps(ctx context.Context, jobs []slurm.Job, living []string) error {
	for i := range jobs {
		job := &jobs[i]
		step, err := s.lostStep(ctx, job, living)
		if err == nil && step != "" {
			err = s.endLostStep(ctx, job, step)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// clockSkew is how far slurmctld's clock and this machine's may be apart.
const clockSkew = 5 * time.Second

// lostStep is a step of srun's or salloc's from before the container's start that slurmctld
// counts as running here, and that has no slurmstepd; empty for none.
func (s *Stale) lostStep(ctx context.Context, job *slurm.Job, living []string) (string, error) {
	before := s.Booted.Add(clockSkew)
	if !job.Running() || job.Start.Time().After(before) || slices.Contains(living, spool.Unknown) {
		return "", nil
	}
	steps, err := s.Slurm.Steps(ctx, job.JobID())
	if err != nil {
		return "", err
	}
	for _, step := range steps {
		socket, begun := socketOf(job, step.ID)
		if !begun || !step.Running || step.Start.After(before) || slices.Contains(living, socket) {
			continue
		}
		hosts, err := hostlist.Parse(step.Hosts)
		switch {
		case err != nil:
			return "", fmt.Errorf("cannot read the nodes of step %s: %w", step.ID, err)
		case !hosts.Contains(s.Name):
		case step.Nodes == 1 || slices.Contains(s.Inherited, socket):
			return step.ID, nil
		case s.FirstHere:
			// The former pod did not end in order, because it would have waited for the job. For
			// the job that is a node's failure, wherever its step had come.
			return step.ID, nil
		default:
			s.Log(slog.LevelWarn,
				"a step has no slurmstepd here since before the container's start: it may have ended in order "+
					"here, and is left alone", slog.String("step", step.ID))
		}
	}
	return "", nil
}

// socketOf is how the name of the socket of a step's slurmstepd ends, and whether srun or
// salloc has begun the step.
func socketOf(job *slurm.Job, step string) (socket string, begun bool) {
	_, number, _ := strings.Cut(strings.TrimPrefix(step, job.JobID()), ".")
	switch number {
	case "batch", "extern":
		return "", false
	case "interactive":
		number = spool.Interactive[1:]
	}
	return fmt.Sprintf("%d.%s", job.ID, strings.Replace(number, "+", ".", 1)), true
}

// endLostStep ends the whole job, because srun exits with 0 when its step is cancelled
// (24.11.5).
func (s *Stale) endLostStep(ctx context.Context, job *slurm.Job, step string) error {
	config, err := s.Slurm.Config(ctx)
	if err != nil {
		return err
	}
	timeout, err := config.Seconds("MessageTimeout")
	if err != nil {
		return err
	}
	if patience := 2 * timeout; time.Since(s.Booted) < patience {
		return fmt.Errorf("srun has not noticed yet that step %s has died, and has %v for it", step, patience)
	}
	said := "its job is left alone (SLURMLET_DEAD_STEPS=keep)"
	if s.Orphans.Do != DeadStepsKeep {
		err = s.Slurm.Comment(ctx, job, fmt.Sprintf("slurmlet: step %s died with the container of %s", step, s.Name))
		switch {
		case err != nil:
		case job.Batch && job.Requeue:
			said, err = "its job is requeued", s.Slurm.RequeueJob(ctx, job)
		default:
			said, err = "its job is cancelled", s.Slurm.CancelJob(ctx, job)
		}
	}
	if err == nil {
		s.Orphans.Count.Add(1)
		s.Log(slog.LevelError, "a step has died with an earlier container, and srun waits for it: "+said,
			slog.String("step", step), slog.String("user", job.User))
	}
	return err
}
