package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/drains"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
)

// Stale are the jobs that slurmctld counts on the node, and that have died with an earlier container or never came.
type Stale struct {
	*Holders
	// Orphans says what becomes of the jobs of steps that have died.
	Orphans *Orphans
	// Booted is the container's start.
	Booted time.Time
	// Inherited are the steps of an earlier container that have left their sockets. FirstHere: no
	// slurmd has used the spool directory before, so the absence of a socket means nothing.
	Inherited []string
	FirstHere bool
	// Drains drain the node, and set it DOWN.
	Drains *drains.Drains
	// Elastic: slurmctld itself starts and ends the node.
	Elastic bool
	// savesPower: slurmctld may suspend nodes, as far as its configuration is known.
	savesPower atomic.Bool
}

// Learn takes from the cluster's configuration whether slurmctld may suspend nodes.
func (s *Stale) Learn(cluster slurm.Config) {
	s.savesPower.Store(cluster.Names("ResumeProgram") && cluster.Names("SuspendProgram"))
}

// End has slurmctld end what it counts as running here, and has died
// with an earlier container. It finds out by itself when slurmd registers, but
// for jobs that it thinks to be starting (BatchStartTimeout), which it misses
// only when slurmd registers again.
func (s *Stale) End(ctx context.Context) error {
	dead, err := s.staleJobs(ctx)
	if err == nil {
		err = errors.Join(s.requeueStaleJobs(ctx, dead), s.failStaleJobs(ctx, dead))
	}
	if err != nil && !errors.Is(err, slurm.ErrUnreachable) {
		s.Log(slog.LevelWarn, "cannot end the jobs that have died with an earlier container", slog.Any("error", err))
	}
	return err
}

func (s *Stale) requeueStaleJobs(ctx context.Context, dead []slurm.Job) error {
	var faults []error
	for i := range dead {
		if job := &dead[i]; job.Requeue {
			s.Log(slog.LevelWarn, "requeueing job "+job.JobID()+", which has died with an earlier container or pod",
				slog.String("user", job.User))
			faults = append(faults, s.Slurm.RequeueJob(ctx, job))
		}
	}
	return errors.Join(faults...)
}

// staleJobs are the batch jobs whose script has left its socket here: it ran in
// an earlier container, and all of that container's processes have ended with
// it. Others may live: a script on another node goes on without its steps here,
// an allocation without any; and a script that has not begun may be on its way.
func (s *Stale) staleJobs(ctx context.Context) ([]slurm.Job, error) {
	var ids []string
	for _, step := range s.Inherited {
		if id, batch := strings.CutSuffix(step, spool.Batch); batch {
			ids = append(ids, id)
		}
	}
	jobs, err := s.jobs(ctx, ids)
	living := s.Spool.Steps()
	dead := slices.DeleteFunc(jobs, func(j slurm.Job) bool {
		return !s.hasBegun(&j) || !j.Start.Time().Before(s.Booted) || spool.HasScript(living, j.ID)
	})
	if err != nil || !s.FirstHere {
		return dead, err
	}
	former, err := s.formerJobs(ctx, living)
	return append(dead, former...), err
}

// formerJobs are the batch jobs that slurmctld counts here and that began before the pod did. Its spool directory was empty,
// so none of them runs. slurmctld takes jobs for young when it has been started itself, and misses them when slurmd registers
// again.
func (s *Stale) formerJobs(ctx context.Context, living []string) ([]slurm.Job, error) {
	jobs, err := s.Here(ctx)
	return slices.DeleteFunc(jobs, func(j slurm.Job) bool {
		return !s.hasBegun(&j) || !j.Start.Time().Before(s.Booted.Add(-bootTime)) || spool.HasStep(living, j.ID)
	}), err
}

// launchTime is how long slurmctld takes a job to be starting: BatchStartTimeout
// and MessageTimeout (slurm.conf(5)).
const launchTime = 20 * time.Second

// Find looks for what slurmctld counts as running here, and does not run.
func (s *Stale) Find(ctx context.Context, number int) lifecycle.Event {
	found := node.LostJobsFound{Number: number}
	node, err := s.Slurm.Node(ctx, s.Name)
	if err == nil && node != nil && node.Busy() {
		found.Lost, err = s.endLost(ctx)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, slurm.ErrUnreachable) { // or another question is asked instead
		s.Log(slog.LevelWarn, "cannot look for jobs that slurmctld counts here, and that do not run", slog.Any("error", err))
	}
	found.Err = err
	return found
}

// endLost ends steps that are lost and jobs that slurmctld forgets, and returns the batch jobs whose script does not run.
func (s *Stale) endLost(ctx context.Context) (lost []string, err error) {
	jobs, err := s.Here(ctx)
	if err != nil {
		return nil, err
	}
	living := s.Spool.Steps()
	missed := slices.DeleteFunc(slices.Clone(jobs), func(j slurm.Job) bool { return !s.hasBegun(&j) || spool.HasScript(living, j.ID) })
	forgotten := s.forgottenJobs(missed)
	for i := range missed {
		job := &missed[i]
		if contains(forgotten, fmt.Sprint(job.ID)) || time.Since(job.Start.Time()) > launchTime {
			lost = append(lost, job.JobID())
		}
	}
	if len(lost) > 0 {
		s.Log(slog.LevelWarn, "slurmctld counts jobs as running here that are not: slurmd registers again",
			slog.String("jobs", strings.Join(lost, ",")))
	}
	return lost, errors.Join(
		s.requeueStaleJobs(ctx, forgotten), s.failStaleJobs(ctx, forgotten), s.endLostSteps(ctx, jobs, living),
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
func (s *Stale) forgottenJobs(missed []slurm.Job) (forgotten []slurm.Job) {
	if !s.Elastic && !s.savesPower.Load() {
		return nil
	}
	for i := range missed {
		if missed[i].Start.Time().Before(s.Booted.Add(-bootTime)) {
			forgotten = append(forgotten, missed[i])
		}
	}
	return forgotten
}

// hasBegun: slurmctld takes the job's script for running here. Not so while a
// prolog runs (CONFIGURING), or in the other parts of a heterogeneous job.
func (s *Stale) hasBegun(job *slurm.Job) bool {
	return job.Running() && !job.State.Is("CONFIGURING") &&
		job.Batch && job.BatchHost == s.Name && job.HetOffset == 0
}

// failStaleJobs has dead jobs that may not be requeued end as NODE_FAIL, by
// setting the node DOWN, which ends whatever holds it: so only if nothing else
// does, and nothing new can come. It stays drained, for the agent to resume.
func (s *Stale) failStaleJobs(ctx context.Context, dead []slurm.Job) error {
	if !slices.ContainsFunc(dead, func(j slurm.Job) bool { return !j.Requeue }) {
		return nil
	}
	_, err := s.Drains.Set(ctx, reasons.Agent, reasons.Stale)
	if _, foreign := errors.AsType[*drains.ForeignError](err); foreign || errors.Is(err, slurm.ErrNoRecord) {
		return nil // the drain and its reason are an admin's
	} else if err != nil {
		return err
	}
	if free, err := s.holdsNothingBut(ctx, dead); err != nil || !free {
		return err
	}
	for i := range dead {
		if job := &dead[i]; !job.Requeue {
			s.Log(slog.LevelError,
				"job "+job.JobID()+" has died with an earlier container and may not be requeued: it fails", slog.String("user", job.User))
			err = errors.Join(err,
				s.Slurm.Comment(ctx, job, fmt.Sprintf("slurmlet: the container of %s ended, and the job may not be requeued", s.Name)))
		}
	}
	if err != nil {
		return err
	}
	return s.Drains.Fail(ctx, reasons.Stale)
}

// holdsNothingBut: the node holds dead jobs alone, and jobs that have ended in an earlier container.
// slurmctld waits for slurmd's word on the end of these, which that container did not give any more,
// and asks for it again only after a minute and a half.
func (s *Stale) holdsNothingBut(ctx context.Context, dead []slurm.Job) (bool, error) {
	holders, err := s.Slurm.JobsOn(ctx, s.Name)
	if err != nil {
		return false, err
	}
	others := slices.DeleteFunc(holders, func(id string) bool { return contains(dead, id) })
	jobs, err := s.jobs(ctx, others)
	living := s.Spool.Steps()
	return len(jobs) == len(others) && !slices.ContainsFunc(jobs, func(j slurm.Job) bool {
		return !s.hasEnded(&j) || spool.HasStep(living, j.ID)
	}), err
}

// hasEnded: slurmctld waits for the end of a job that began in an earlier container. The start of a
// requeued one is the next, which slurmctld expects.
func (s *Stale) hasEnded(job *slurm.Job) bool {
	return job.Completing() && (job.State.Pending() || job.Start.Time().Before(s.Booted))
}

func contains(jobs []slurm.Job, id string) bool {
	return slices.ContainsFunc(jobs, func(j slurm.Job) bool { return fmt.Sprint(j.ID) == id })
}
