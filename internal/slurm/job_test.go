package slurm

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const batchStep = "StepId=4.batch UserId=1000 StartTime=1795239696 TimeLimit=UNLIMITED State=RUNNING Partition=all NodeList=node-1 Nodes=1 CPUs=0 Tasks=1 " +
	"Name=batch Network=(null) TRES=(null) ResvPorts=(null) CPUFreqReq=Default SrunHost:Pid=(null):0\n"

func TestStep(t *testing.T) {
	s := scontrol(t, batchStep, "", "0")
	step, err := s.Step(t.Context(), "4.batch")
	require.NoError(t, err)
	assert.Equal(t, &Step{"4.batch", true, 1, "node-1", time.Unix(1795239696, 0)}, step)
	assert.Equal(t, "--oneliner show step 4.batch\n", calls(t, s))
}

func TestSteps(t *testing.T) {
	s := scontrol(t, batchStep+strings.ReplaceAll(strings.Replace(batchStep, "4.batch", "4.0", 1), "NodeList=node-1 Nodes=1", "NodeList=node-[1-2] Nodes=2"), "", "0")
	steps, err := s.Steps(t.Context(), "4")
	require.NoError(t, err)
	began := time.Unix(1795239696, 0)
	assert.Equal(t, []Step{{"4.batch", true, 1, "node-1", began}, {"4.0", true, 2, "node-[1-2]", began}}, steps)
	_, err = scontrol(t, strings.Replace(batchStep, "1795239696", "2026-11-21T05:41:36", 1), "", "0").Steps(t.Context(), "4")
	require.ErrorContains(t, err, `StartTime="2026-11-21T05:41:36"`)
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
	for version, c := range map[string]struct{ plain, salloc string }{"24.11": {"3", "10"}, "26.05": {"3", "11"}} {
		s := scontrol(t, recorded(t, "job-plain-"+version+".json"), "", "0")
		job, err := s.Job(t.Context(), c.plain)
		require.NoError(t, err, version)
		assert.Equal(t, "show job 3 --json\n", calls(t, s))
		assert.Equal(t, []any{int64(3), "3", "alice", true, true}, []any{job.ID, job.JobID(), job.User, job.Batch, job.Requeue}, version)
		assert.Greater(t, job.End.Time().Unix(), int64(1_790_000_000))
		job, err = scontrol(t, recorded(t, "job-salloc-"+version+".json"), "", "0").Job(t.Context(), c.salloc)
		require.NoError(t, err, version)
		assert.Equal(t, []any{c.salloc, false, true, true}, []any{job.JobID(), job.Batch, job.Requeue, job.Running()}, version)
	}
}

// The answer about an array's number or a leader's is about all of it.
func TestJobOfSeveral(t *testing.T) {
	for file, names := range map[string]map[string]string{
		"job-array-24.11.json": {"4": "4_2", "9": "4_1", "8": "4_0", "7": ""},
		"job-array-26.05.json": {"6": "6_2", "13": "6_1", "12": "6_0", "sEGDM7YP4TT200": "6_1", "sEGDM7YP4TT201": ""},
		"job-het-24.11.json":   {"5": "5+0", "6": "5+1"},
		"job-het-26.05.json":   {"7": "7+0", "8": "7+1", "sEGDM7YP4S1D00": "7+1"},
	} {
		s := scontrol(t, recorded(t, file), "", "0")
		for id, name := range names {
			job, err := s.Job(t.Context(), id)
			require.NoError(t, err, file)
			if name == "" {
				assert.Nil(t, job, "%s: %s", file, id)
				continue
			}
			require.NotNil(t, job, "%s: %s", file, id)
			assert.Equal(t, name, job.JobID(), file)
			assert.True(t, job.Running(), file)
		}
	}
}

func TestNoJob(t *testing.T) {
	for _, s := range []Scontrol{
		scontrol(t, recorded(t, "job-none-24.11.json"), "", "0"),
		scontrol(t, recorded(t, "job-none-26.05.json"), "", "0"),
		scontrol(t, `{"jobs": [], "errors": [{"description": "x", "error": "Invalid job id specified"}]}`, "", "1"),
	} {
		job, err := s.Job(t.Context(), "99")
		require.NoError(t, err)
		assert.Nil(t, job)
	}
	_, err := scontrol(t, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", "1").Job(t.Context(), "99")
	require.ErrorIs(t, err, ErrUnreachable)
}

func TestJobID(t *testing.T) {
	for id, job := range map[string]Job{
		"5":     {ID: 5},
		"7_0":   {ID: 8, ArrayID: 7, ArrayTask: "0"},
		"7_3":   {ID: 7, ArrayID: 7, ArrayTask: "3"},
		"9":     {ID: 9, ArrayID: 9}, // the tasks of an array that are still to come
		"10+0":  {ID: 10, HetID: 10},
		"10+11": {ID: 21, HetID: 10, HetOffset: 11},
	} {
		assert.Equal(t, id, job.JobID())
	}
}

func TestRunning(t *testing.T) {
	for state, running := range map[string]bool{
		"RUNNING": true, "RUNNING CONFIGURING": true, "RUNNING STOPPED": true, "SUSPENDED": true,
		"CANCELLED COMPLETING": false, "PENDING COMPLETING": false, "COMPLETED": false, "NODE_FAIL": false, "PENDING": false,
	} {
		assert.Equal(t, running, (&Job{State: strings.Fields(state)}).Running(), state)
	}
}

func TestJobsOn(t *testing.T) {
	s := squeue(scontrol(t, "7                       \n10                      \n4294967294              \n", "", "0"))
	ids, err := s.JobsOn(t.Context(), "n1")
	require.NoError(t, err)
	assert.Equal(t, []string{"7", "10", "4294967294"}, ids)
	assert.Equal(t, "--noheader --all --nodelist=n1 --Format=JobID:24\n", calls(t, s))
	for name, s := range map[string]Scontrol{
		"idle":      scontrol(t, "", "", "0"),
		"no record": scontrol(t, "", "squeue: error: Invalid node name n1\n", "1"),
	} {
		ids, err := squeue(s).JobsOn(t.Context(), "n1")
		require.NoError(t, err, name)
		assert.Empty(t, ids, name)
	}
}

// An error is never taken for a node without jobs.
func TestJobsOnWithoutAnAnswer(t *testing.T) {
	_, err := squeue(scontrol(t, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", "1")).JobsOn(t.Context(), "n1")
	require.ErrorIs(t, err, ErrUnreachable)
	_, err = squeue(scontrol(t, "", "squeue: error: Invalid node name n1\n", "1")).JobsOn(t.Context(), "n[1-2]")
	require.Error(t, err, "n2 may have jobs")
	_, err = squeue(scontrol(t, "7\n5+1\n", "", "0")).JobsOn(t.Context(), "n1")
	require.EqualError(t, err, `cannot read the answer of squeue: "5+1" is no job id`)
	_, err = squeue(scontrol(t, "", "squeue: error: Invalid job state specified: FOO\n", "1")).JobsOn(t.Context(), "n1")
	require.EqualError(t, err, "squeue: Invalid job state specified: FOO")
}

func squeue(s Scontrol) Scontrol {
	s.Squeue = s.Path
	return s
}

func scancel(s Scontrol) Scontrol {
	s.Scancel = s.Path
	return s
}

var (
	running = []string{"RUNNING"}
	task    = &Job{ID: 5, ArrayID: 5, ArrayTask: "2", State: running}
	part    = &Job{ID: 8, HetID: 7, HetOffset: 1, State: running}
)

func TestWhatIsDoneToAJob(t *testing.T) {
	s := scancel(scontrol(t, "", "", "0"))
	for _, job := range []*Job{{ID: 3, State: running}, task, part} {
		require.NoError(t, s.CommentJob(t.Context(), job, "why, and more"))
		require.NoError(t, s.SignalJob(t.Context(), job, "USR1", false))
		require.NoError(t, s.SignalJob(t.Context(), job, "TERM", true))
		require.NoError(t, s.CancelJob(t.Context(), job))
		require.NoError(t, s.RequeueJob(t.Context(), job))
		require.NoError(t, s.ReleaseJob(t.Context(), job))
	}
	assert.Equal(t, `update jobid=3 admincomment=why, and more
--verbose --signal=USR1 3
--verbose --signal=TERM --batch 3
3
requeue incomplete 3
release 3
update jobid=5_2 admincomment=why, and more
--verbose --signal=USR1 5_2
--verbose --signal=TERM --batch 5_2
5_2
requeue incomplete 5_2
release 5_2
update jobid=7+1 admincomment=why, and more
--verbose --signal=USR1 7+1
--verbose --signal=TERM --batch 7+1
7+1
requeue incomplete 7
release 7
`, calls(t, s))
}

// What Slurm says about a job that has ended, or is forgotten, is no error.
func TestWhatIsDoneToAJobThatHasEnded(t *testing.T) {
	for _, c := range []struct{ said, status string }{
		{"scancel: error: Kill job error on job id 5_2: Invalid job id specified\n", "1"},
		{"scancel: Terminating job 5_2\nscancel: error: Kill job error on job id 5_2: Job/step already completing or completed\n", "229"},
		{"Job has already finished for job 5\n", "1"},
		{"5_2: Job has already finished\n", "1"},
		{"5_[2]: Invalid job id specified\n", "1"},
	} {
		s := scancel(scontrol(t, "", c.said, c.status))
		assert.NoError(t, s.CommentJob(t.Context(), task, "x"), c.said)
		assert.NoError(t, s.SignalJob(t.Context(), task, "USR1", true), c.said)
		assert.NoError(t, s.CancelJob(t.Context(), task), c.said)
		assert.NoError(t, s.RequeueJob(t.Context(), task), c.said)
		assert.NoError(t, s.ReleaseJob(t.Context(), task), c.said)
	}
}

func TestWhatCannotBeDoneToAJob(t *testing.T) {
	for said, want := range map[string]string{
		"Requested operation is presently disabled for job 8\n":                                     "scontrol requeue incomplete 7: Requested operation is presently disabled for job 8",
		"Only batch jobs are accepted or processed for job 8\n":                                     "Only batch jobs",
		"slurm_requeue error: Unable to contact slurm controller (connect failure) for job 7\n":     "Unable to contact",
		"Job not heterogeneous job leader for job 8\n":                                              "not heterogeneous job leader",
		"scancel: error: Kill job error on job id 8: Job can not be altered now, try again later\n": "can not be altered now",
	} {
		s := scancel(scontrol(t, "", said, "1"))
		require.ErrorContains(t, s.RequeueJob(t.Context(), part), want)
		assert.Error(t, s.ReleaseJob(t.Context(), part), said)
		assert.Error(t, s.CancelJob(t.Context(), part), said)
		assert.Error(t, s.SignalJob(t.Context(), part, "USR1", false), said)
		assert.Error(t, s.CommentJob(t.Context(), part, "x"), said)
	}
	away := scontrol(t, "", "scontrol: error: _xgetaddrinfo: getaddrinfo() failed: Temporary failure in name resolution\nUnexpected message received for job 7\n", "1")
	require.ErrorIs(t, away.RequeueJob(t.Context(), part), ErrUnreachable)
	s := scontrol(t, "", "", "0")
	s.Scancel = filepath.Join(t.TempDir(), "scancel")
	require.Error(t, s.CancelJob(t.Context(), part))
}

// scancel would try for a minute and a half.
func TestSignalNotTaken(t *testing.T) {
	s := scontrol(t, "", "", "0") // without scancel
	err := s.SignalJob(t.Context(), &Job{ID: 5, State: []string{"SUSPENDED"}}, "USR1", false)
	require.EqualError(t, err, "cannot signal job 5: it is SUSPENDED, not RUNNING")
	err = s.SignalJob(t.Context(), &Job{ID: 5, State: []string{"PENDING", "COMPLETING"}}, "USR1", false)
	require.EqualError(t, err, "cannot signal job 5: it is PENDING, COMPLETING, not RUNNING")
}

func TestUnfinished(t *testing.T) {
	s := scontrol(t, "3 all\n4_[0-3%2] cpu,gpu\n5+1 gpu\n", "", "0")
	s.Squeue = s.Path
	jobs, err := s.Unfinished(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []Unfinished{{"3", []string{"all"}}, {"4_[0-3%2]", []string{"cpu", "gpu"}}, {"5+1", []string{"gpu"}}}, jobs)
	assert.Equal(t, "--noheader --all --local --format=%i %P\n", calls(t, s))

	s = scontrol(t, "", "", "0")
	s.Squeue = s.Path
	jobs, err = s.Unfinished(t.Context())
	require.NoError(t, err)
	assert.Empty(t, jobs)

	s = scontrol(t, "3 all\n4\n", "", "0")
	s.Squeue = s.Path
	_, err = s.Unfinished(t.Context())
	require.ErrorContains(t, err, `cannot read the answer of squeue: want a job and its partitions, not "4\n"`)

	s = scontrol(t, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)", "1")
	s.Squeue = s.Path
	_, err = s.Unfinished(t.Context())
	require.ErrorIs(t, err, ErrUnreachable)
}
