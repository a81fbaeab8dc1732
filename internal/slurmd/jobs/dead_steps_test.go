package jobs

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// ward is a slurmctld with one job; it keeps what it was told.
type ward struct {
	slurm.Client
	step *slurm.Step
	job  *slurm.Job
	told []string
	err  error
}

func (w *ward) Step(context.Context, string) (*slurm.Step, error) { return w.step, nil }
func (w *ward) Job(context.Context, string) (*slurm.Job, error)   { return w.job, w.err }

func (w *ward) CommentJob(_ context.Context, job *slurm.Job, comment string) error {
	return w.tell("comment %s %s", job.JobID(), comment)
}

func (w *ward) CancelJob(_ context.Context, job *slurm.Job) error {
	return w.tell("cancel %s", job.JobID())
}

func (w *ward) RequeueJob(_ context.Context, job *slurm.Job) error {
	return w.tell("requeue %s", job.JobID())
}

func (w *ward) tell(format string, args ...any) error {
	w.told = append(w.told, fmt.Sprintf(format, args...))
	return nil
}

func TestJobThatHasLostASlurmstepd(t *testing.T) {
	const comment = "comment 3 slurmlet: slurmstepd of step 3.batch died on n1"
	running := &slurm.Step{Running: true, Nodes: 1}
	state := []string{"RUNNING"}
	batch := &slurm.Job{ID: 3, State: state, Batch: true, Requeue: true}
	for name, c := range map[string]struct {
		do    DeadSteps
		step  *slurm.Step
		job   *slurm.Job
		empty bool
		said  string
		told  []string
	}{
		"ended":                      {DeadStepsEnd, running, batch, false, "its job is cancelled", []string{comment, "cancel 3"}},
		"its processes dead already": {DeadStepsEnd, running, batch, true, "its job is cancelled", []string{comment, "cancel 3"}},
		"an admin's comment": {
			DeadStepsEnd, running, &slurm.Job{ID: 3, State: state, AdminComment: "mine"}, false, "its job is cancelled",
			[]string{"comment 3 mine; slurmlet: slurmstepd of step 3.batch died on n1", "cancel 3"},
		},
		"requeued": {DeadStepsRequeue, running, batch, false, "its job is requeued", []string{comment, "requeue 3"}},
		"not to be requeued": {
			DeadStepsRequeue, running, &slurm.Job{ID: 3, State: state, Batch: true}, false, "its job is cancelled", []string{comment, "cancel 3"},
		},
		"kept":                      {DeadStepsKeep, running, batch, false, "its job is left alone (SLURMLET_DEAD_STEPS=keep)", nil},
		"over":                      {DeadStepsEnd, &slurm.Step{Nodes: 1}, batch, true, "", nil},
		"not known":                 {DeadStepsEnd, nil, batch, true, "", nil},
		"a job that somebody ends":  {DeadStepsEnd, running, &slurm.Job{ID: 3, State: []string{"CANCELLED", "COMPLETING"}}, false, "", nil},
		"a job that has gone":       {DeadStepsEnd, running, nil, false, "", nil},
		"empty here, on more nodes": {DeadStepsEnd, &slurm.Step{Running: true, Nodes: 2}, batch, true, "it runs on 2 nodes and had no processes left here, so its job is left alone", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := &ward{step: c.step, job: c.job}
			n := newNode(t, w)
			o := &Orphans{Node: &n, Do: c.do}
			said, err := o.endJob(t.Context(), cgroup.StepOrphaned{StepID: cgroup.StepID{Job: "3", Step: "batch"}, Populated: !c.empty})
			require.NoError(t, err)
			assert.Equal(t, c.said, said)
			assert.Equal(t, c.told, w.told)
		})
	}
}

// Without an answer nothing is known to be over.
func TestJobThatCannotBeAskedFor(t *testing.T) {
	w := &ward{err: errors.New("connection refused")}
	n := newNode(t, w)
	o := &Orphans{Node: &n}
	_, err := o.endJob(t.Context(), cgroup.StepOrphaned{})
	require.Error(t, err)
	assert.Empty(t, w.told)
}
