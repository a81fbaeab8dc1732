package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

func (m *staleCluster) Steps(context.Context, string) ([]slurm.Step, error) { return m.steps, nil }
func (m *staleCluster) Config(context.Context) (slurm.Config, error) {
	return slurm.Config{"MessageTimeout": "10 sec"}, nil
}

// TestLostSteps: a step of job 3 that srun, elsewhere, waits for, and whose slurmstepd has died with an earlier container.
func TestLostSteps(t *testing.T) {
	const comment = "comment 3 slurmlet: step 3.0 died with the container of n1"
	booted := time.Now().Add(-time.Minute)
	job := slurm.Job{ID: 3, State: []string{"RUNNING"}, Batch: true, BatchHost: "n2", Start: slurm.TimeOf(booted.Add(-time.Minute))}
	requeues := job
	requeues.Requeue = true
	task := job
	task.ArrayID, task.ArrayTask = 2, "7"
	allocation := requeues
	allocation.Batch = false
	young := job
	young.Start = slurm.TimeOf(booted.Add(time.Minute / 2))
	ending := job
	ending.State = []string{"RUNNING", "COMPLETING"}
	step := slurm.Step{ID: "3.0", Running: true, Nodes: 2, Hosts: "n[1-2]", Start: job.Start.Time()}
	with := func(change func(*slurm.Step)) slurm.Step {
		s := step
		change(&s)
		return s
	}
	left := []string{"3.0"}
	for name, c := range map[string]struct {
		job       slurm.Job
		step      slurm.Step
		inherited []string
		do        DeadSteps
		firstHere bool
		living    string
		told      []string
	}{
		"its job may be requeued":          {job: requeues, step: step, inherited: left, told: []string{comment, "requeue 3"}},
		"its job may not":                  {job: job, step: step, inherited: left, told: []string{comment, "cancel 3"}},
		"an allocation":                    {job: allocation, step: step, inherited: left, told: []string{comment, "cancel 3"}},
		"salloc's own":                     {job: allocation, step: with(func(s *slurm.Step) { s.ID = "3.interactive" }), inherited: []string{"3.4294967290"}, told: []string{"comment 3 slurmlet: step 3.interactive died with the container of n1", "cancel 3"}},
		"of a task of an array":            {job: task, step: with(func(s *slurm.Step) { s.ID = "2_7.0" }), inherited: left, told: []string{"comment 2_7 slurmlet: step 2_7.0 died with the container of n1", "cancel 2_7"}},
		"of a heterogeneous step":          {job: job, step: with(func(s *slurm.Step) { s.ID = "3.0+1" }), inherited: []string{"3.0.1"}, told: []string{"comment 3 slurmlet: step 3.0+1 died with the container of n1", "cancel 3"}},
		"it is to be kept":                 {job: job, step: step, inherited: left, do: DeadStepsKeep},
		"of a pod that has gone":           {job: job, step: with(func(s *slurm.Step) { s.Nodes, s.Hosts = 1, "n1" }), told: []string{comment, "cancel 3"}},
		"it may have ended in order":       {job: job, step: step},
		"of several nodes, and a new pod":  {job: requeues, step: step, firstHere: true, told: []string{comment, "requeue 3"}},
		"begun since, in a new pod":        {job: young, step: step, firstHere: true},
		"it runs":                          {job: job, step: step, inherited: left, living: "3.0"},
		"it is elsewhere":                  {job: job, step: with(func(s *slurm.Step) { s.Hosts = "n[2-3]" }), inherited: left},
		"slurmctld knows of its end":       {job: job, step: with(func(s *slurm.Step) { s.Running = false }), inherited: left},
		"it has begun since":               {job: job, step: with(func(s *slurm.Step) { s.Start = booted.Add(time.Minute / 2) }), inherited: left},
		"its job has begun since":          {job: young, step: step, inherited: left},
		"its job is ending":                {job: ending, step: step, inherited: left},
		"a batch script elsewhere":         {job: job, step: with(func(s *slurm.Step) { s.ID = "3.batch" }), inherited: left},
		"the job's cgroup (job_container)": {job: job, step: with(func(s *slurm.Step) { s.ID = "3.extern" }), inherited: left},
	} {
		t.Run(name, func(t *testing.T) {
			m := &staleCluster{jobs: []slurm.Job{c.job}, node: record("", "MIXED"), steps: []slurm.Step{c.step}}
			s := newStale(t, m)
			s.Inherited, s.FirstHere, s.Booted, s.Orphans.Do = c.inherited, c.firstHere, booted, c.do
			if c.living != "" {
				listening(t, s.Spool.Socket(c.living))
			}
			assert.Equal(t, node.LostJobsFound{Number: 5}, s.Find(t.Context(), 5))
			assert.Equal(t, c.told, m.told)
			m.told, s.Booted = nil, time.Now().Add(-19*time.Second)
			m.jobs[0].Start = slurm.TimeOf(time.Now().Add(-time.Minute))
			found := s.Find(t.Context(), 5).(node.LostJobsFound)
			if len(c.told) > 0 {
				require.ErrorContains(t, found.Err, "srun has not noticed yet")
			}
			assert.Empty(t, m.told)
		})
	}
}
