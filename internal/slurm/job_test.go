package slurm

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const batchStep = "StepId=4.batch UserId=1000 StartTime=2026-11-21T05:41:36 TimeLimit=UNLIMITED State=RUNNING Partition=all NodeList=node-1 Nodes=1 CPUs=0 Tasks=1 " +
	"Name=batch Network=(null) TRES=(null) ResvPorts=(null) CPUFreqReq=Default SrunHost:Pid=(null):0\n"

func TestStep(t *testing.T) {
	s := scontrol(t, batchStep, "", "0")
	step, err := s.Step(t.Context(), "4.batch")
	require.NoError(t, err)
	assert.Equal(t, &Step{Running: true, Nodes: 1}, step)
	assert.Equal(t, "--oneliner show step 4.batch\n", calls(t, s))
}

func TestNoStep(t *testing.T) {
	for name, s := range map[string]Scontrol{
		"of the job":         scontrol(t, "", "scontrol: error: scontrol_print_step: slurm_get_job_steps(4.7) failed: Invalid job id specified", "1"),
		"of any job":         scontrol(t, "No job steps found\n", "", "1"),
		"nothing, no answer": scontrol(t, "", "", "0"),
	} {
		step, err := s.Step(t.Context(), "4.7")
		require.NoError(t, err, name)
		assert.Nil(t, step, name)
	}
}

func TestStepWithoutAnAnswer(t *testing.T) {
	_, err := scontrol(t, "", "slurm_get_job_steps error: Unable to contact slurm controller (connect failure)", "1").Step(t.Context(), "4.0")
	require.ErrorContains(t, err, "Unable to contact slurm controller")
	_, err = scontrol(t, "StepId=4.0 State=RUNNING Nodes=some\n", "", "0").Step(t.Context(), "4.0")
	require.ErrorContains(t, err, `Nodes="some"`)
}

func TestJob(t *testing.T) {
	s := scontrol(t, `{"jobs": [{"job_id": 5, "admin_comment": "x", "batch_flag": true, "requeue": true, "job_state": ["RUNNING"]}], "errors": []}`, "", "0")
	job, err := s.Job(t.Context(), "s3ZHM7YA8WME00")
	require.NoError(t, err)
	assert.Equal(t, &Job{ID: 5, State: []string{"RUNNING"}, AdminComment: "x", Batch: true, Requeue: true}, job)
	assert.True(t, job.Running())
	assert.False(t, (&Job{State: []string{"COMPLETED"}}).Running() || (&Job{State: []string{"RUNNING", "COMPLETING"}}).Running())
	job, err = scontrol(t, `{"jobs": [], "errors": [{"description": "x", "error": "Invalid job id specified"}]}`, "", "1").Job(t.Context(), "7")
	require.NoError(t, err)
	assert.Nil(t, job)
}

func TestWhatIsDoneToAJob(t *testing.T) {
	s := scontrol(t, "", "", "0")
	s.Scancel = s.Path
	require.NoError(t, s.CommentJob(t.Context(), 5, "why, and more"))
	require.NoError(t, s.CancelJob(t.Context(), 5))
	require.NoError(t, s.RequeueJob(t.Context(), 5))
	assert.Equal(t, "update jobid=5 admincomment=why, and more\n5\nrequeue 5\n", calls(t, s))
	gone := scontrol(t, "", "scancel: error: Kill job error on job id 5: Invalid job id specified", "1")
	gone.Scancel = gone.Path
	require.NoError(t, gone.CancelJob(t.Context(), 5))
	gone.Scancel = filepath.Join(t.TempDir(), "scancel")
	require.Error(t, gone.CancelJob(t.Context(), 5))
}
