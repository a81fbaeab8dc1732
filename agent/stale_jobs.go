package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

// batchStep is the end of a batch script's socket: the number of that step is
// above all others (slurm/slurm.h, SLURM_BATCH_SCRIPT).
const batchStep = ".4294967291"

// endStaleJobs has slurmctld end what it counts as running here, and has died
// with an earlier container. It finds out by itself when slurmd registers, but
// for jobs that it thinks to be starting (BatchStartTimeout), which it misses
// only when slurmd registers again.
func (a *Agent) endStaleJobs(ctx context.Context) error {
	dead, err := a.staleJobs(ctx)
	if err == nil {
		err = errors.Join(a.requeueStaleJobs(ctx, dead), a.failStaleJobs(ctx, dead))
	}
	if err != nil && !errors.Is(err, slurm.ErrUnreachable) {
		a.log(slog.LevelWarn, "cannot end the jobs that have died with an earlier container", slog.Any("error", err))
	}
	return err
}

func (a *Agent) requeueStaleJobs(ctx context.Context, dead []slurm.Job) error {
	var faults []error
	for i := range dead {
		if job := &dead[i]; job.Requeue {
			a.log(slog.LevelWarn, "requeueing job "+job.Name()+", which has died with an earlier container or pod", slog.String("user", job.User))
			faults = append(faults, a.client.RequeueJob(ctx, job))
		}
	}
	return errors.Join(faults...)
}

// staleJobs are the batch jobs whose script has left its socket here: it ran in
// an earlier container, and all of that container's processes have ended with
// it. Others may live: a script on another node goes on without its steps here,
// an allocation without any; and a script that has not begun may be on its way.
func (a *Agent) staleJobs(ctx context.Context) ([]slurm.Job, error) {
	var ids []string
	for _, step := range a.inherited {
		if id, batch := strings.CutSuffix(step, batchStep); batch {
			ids = append(ids, id)
		}
	}
	jobs, err := a.jobs(ctx, ids)
	living := a.stepSockets()
	dead := slices.DeleteFunc(jobs, func(j slurm.Job) bool {
		return !a.hasBegun(&j) || !j.Start.Before(a.daemon.booted) || hasScript(living, &j)
	})
	if err != nil || !a.firstHere {
		return dead, err
	}
	former, err := a.formerJobs(ctx, living)
	return append(dead, former...), err
}

// formerJobs are the batch jobs that slurmctld counts here and that began before the pod did. Its spool directory was empty,
// so none of them runs. slurmctld takes jobs for young when it has been started itself, and misses them when slurmd registers
// again.
func (a *Agent) formerJobs(ctx context.Context, living []string) ([]slurm.Job, error) {
	jobs, err := a.jobsHere(ctx)
	return slices.DeleteFunc(jobs, func(j slurm.Job) bool {
		return !a.hasBegun(&j) || !j.Start.Before(a.daemon.booted.Add(-bootTime)) || hasStep(living, &j)
	}), err
}

// launchTime is how long slurmctld takes a job to be starting: BatchStartTimeout
// and MessageTimeout (slurm.conf(5)).
const launchTime = 20 * time.Second

// findLost looks for what slurmctld counts as running here, and does not run.
func (a *Agent) findLost(ctx context.Context, number int) lifecycle.Event {
	found := lifecycle.LostJobsFound{Number: number}
	node, err := a.client.Node(ctx, a.Config.NodeName)
	if err == nil && node != nil && node.Busy() {
		found.Lost, err = a.endLost(ctx)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, slurm.ErrUnreachable) { // or another question is asked instead
		a.log(slog.LevelWarn, "cannot look for jobs that slurmctld counts here, and that do not run", slog.Any("error", err))
	}
	found.Err = err
	return found
}

// endLost ends steps that are lost and jobs that slurmctld forgets, and returns the batch jobs whose script does not run.
func (a *Agent) endLost(ctx context.Context) (lost []string, err error) {
	jobs, err := a.jobsHere(ctx)
	if err != nil {
		return nil, err
	}
	living := a.stepSockets()
	missed := slices.DeleteFunc(slices.Clone(jobs), func(j slurm.Job) bool { return !a.hasBegun(&j) || hasScript(living, &j) })
	forgotten := a.forgottenJobs(missed)
	for i := range missed {
		job := &missed[i]
		if contains(forgotten, fmt.Sprint(job.ID)) || time.Since(job.Start.Time) > launchTime {
			lost = append(lost, job.Name())
		}
	}
	if len(lost) > 0 {
		a.log(slog.LevelWarn, "slurmctld counts jobs as running here that are not: slurmd registers again", slog.String("jobs", strings.Join(lost, ",")))
	}
	return lost, errors.Join(
		a.requeueStaleJobs(ctx, forgotten), a.failStaleJobs(ctx, forgotten), a.endLostSteps(ctx, jobs, living),
	)
}

// bootTime is how much sooner than the container a job must have begun to be one of an earlier container,
// because the clocks of two machines differ. slurmctld lets those wait that began 15 s before the node's boot:
// MessageTimeout (slurm.conf(5)), and 5 s. It takes the boot for later than it was by the time that slurmd's
// registration was on its way, which the difference of the two allows for.
const bootTime = 10 * time.Second

// forgottenJobs are those that began before this container. Where power saving is on, slurmctld lets them
// wait for the boot until ResumeTimeout is over, however often slurmd registers without them (24.11.5 and
// 26.05.5: job_mgr.c, _purge_missing_jobs).
func (a *Agent) forgottenJobs(missed []slurm.Job) (forgotten []slurm.Job) {
	if !a.Config.Elastic && !a.savesPower.Load() {
		return nil
	}
	for i := range missed {
		if missed[i].Start.Before(a.daemon.booted.Add(-bootTime)) {
			forgotten = append(forgotten, missed[i])
		}
	}
	return forgotten
}

// hasScript: the job's script is among the steps that run.
func hasScript(living []string, job *slurm.Job) bool {
	return slices.Contains(living, fmt.Sprint(job.ID)+batchStep) || slices.Contains(living, unknownStep)
}

// hasStep: a step of the job is among those that run.
func hasStep(living []string, job *slurm.Job) bool {
	return slices.ContainsFunc(living, func(step string) bool {
		return step == unknownStep || strings.HasPrefix(step, fmt.Sprint(job.ID)+".")
	})
}

// hasBegun: slurmctld takes the job's script for running here. Not so while a
// prolog runs (CONFIGURING), or in the other parts of a heterogeneous job.
func (a *Agent) hasBegun(job *slurm.Job) bool {
	return job.Running() && !slices.Contains(job.State, "CONFIGURING") &&
		job.Batch && job.BatchHost == a.Config.NodeName && job.HetOffset.Number == 0
}

// failStaleJobs has dead jobs that may not be requeued end as NODE_FAIL, by
// setting the node DOWN, which ends whatever holds it: so only if nothing else
// does, and nothing new can come. It stays drained, for the agent to resume.
func (a *Agent) failStaleJobs(ctx context.Context, dead []slurm.Job) error {
	if !slices.ContainsFunc(dead, func(j slurm.Job) bool { return !j.Requeue }) {
		return nil
	}
	node, err := a.client.Node(ctx, a.Config.NodeName)
	if err != nil || node == nil || lifecycle.Foreign(node) {
		return err // the drain and its reason are an admin's
	}
	if !lifecycle.Own(node) { // or drained by slurmctld, because slurmd has another size than the record
		if err := a.client.DrainNode(ctx, a.Config.NodeName, reasons.Stale); err != nil {
			return err
		}
	}
	if free, err := a.holdsNothingBut(ctx, dead); err != nil || !free {
		return err
	}
	for i := range dead {
		if job := &dead[i]; !job.Requeue {
			a.log(slog.LevelError, "job "+job.Name()+" has died with an earlier container and may not be requeued: it fails", slog.String("user", job.User))
			err = errors.Join(err, a.client.Comment(ctx, job, fmt.Sprintf("slurmlet: the container of %s ended, and the job may not be requeued", a.Config.NodeName)))
		}
	}
	if err != nil {
		return err
	}
	return a.client.FailNode(ctx, a.Config.NodeName, reasons.Stale)
}

// holdsNothingBut: the node holds dead jobs alone, and jobs that have ended in an earlier container.
// slurmctld waits for slurmd's word on the end of these, which that container did not give any more,
// and asks for it again only after a minute and a half.
func (a *Agent) holdsNothingBut(ctx context.Context, dead []slurm.Job) (bool, error) {
	holders, err := a.client.JobsOn(ctx, a.Config.NodeName)
	if err != nil {
		return false, err
	}
	others := slices.DeleteFunc(holders, func(id string) bool { return contains(dead, id) })
	jobs, err := a.jobs(ctx, others)
	living := a.stepSockets()
	return len(jobs) == len(others) && !slices.ContainsFunc(jobs, func(j slurm.Job) bool {
		return !a.hasEnded(&j) || hasStep(living, &j)
	}), err
}

// hasEnded: slurmctld waits for the end of a job that began in an earlier container. The start of a
// requeued one is the next, which slurmctld expects.
func (a *Agent) hasEnded(job *slurm.Job) bool {
	return slices.Contains(job.State, "COMPLETING") && (slices.Contains(job.State, "PENDING") || job.Start.Before(a.daemon.booted))
}

func contains(jobs []slurm.Job, id string) bool {
	return slices.ContainsFunc(jobs, func(j slurm.Job) bool { return fmt.Sprint(j.ID) == id })
}
