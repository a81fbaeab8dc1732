//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
	"github.com/slurmlet/slurmlet/kubectl-slurm/why"
)

// forgottenJobs: accounting tells of jobs that have ended longer ago than MinJobAge, and that their output is where it
// was.
func forgottenJobs(t *testing.T, c *cluster) {
	world := sandboxWorld{c, sandbox.Slurmctld}
	failed := c.submit(t, "echo it was $SLURMD_NODENAME; exit 3", "--mem=10")
	tasks := c.submit(t, "exit $((SLURM_ARRAY_TASK_ID - 1))", "--mem=10", "--array=1-2", "--output=/dev/null")
	cancelled := c.submit(t, "sleep 1000", "--mem=10")
	c.waitJob(t, cancelled, "RUNNING")
	c.as(t, "alice", "login", "scancel", cancelled)
	completed := c.submit(t, "true", "--mem=10", "-d", "afterany:"+failed+":"+tasks+":"+cancelled)
	c.waitJob(t, completed, "COMPLETED")
	swap := (&editing{cluster: c}).lives(t)
	swap(c.SlurmConf + "MinJobAge=2\n")
	for _, id := range []string{failed, tasks, cancelled, completed} {
		until(t, "slurmctld has forgotten job "+id, func() (bool, string) {
			jobs, err := slurm.FindJobs(t.Context(), world, id)
			require.NoError(t, err)
			return len(jobs) == 0, ""
		})
	}
	for _, one := range []struct{ id, about, says string }{
		{failed, "Job " + failed + " (wrap) of alice in partition all is FAILED on node-0. slurmctld has forgotten it, and accounting has it from 20", "The job has ended with exit status 3"},
		{tasks, "Job " + tasks + "_2 (wrap) of alice", "The job has ended with exit status 1"},
		{tasks + "_1", "Job " + tasks + "_1 (wrap) of alice in partition all is COMPLETED", "There is nothing to mend"},
		{cancelled, " is CANCELLED on node-0", "Somebody has cancelled the job"},
		{completed, " is COMPLETED on node-0", "There is nothing to mend"},
	} {
		var text string
		until(t, "accounting knows the end of job "+one.id, func() (bool, string) { // slurmctld tells slurmdbd a little later
			facts, err := why.GatherJob(t.Context(), world, one.id, time.Now())
			require.NoError(t, err)
			assert.True(t, facts.Forgotten)
			text = said(why.Judge(facts))
			return strings.Contains(text, one.about) && strings.Contains(text, one.says), text
		})
		t.Log(text)
	}
	jobs, err := why.Forgotten(t.Context(), world, failed)
	require.NoError(t, err)
	assert.Equal(t, "it was node-0\n", c.run(t, jobs[0].BatchHost, "cat", jobs[0].OutputFile()))

	_, err = why.GatherJob(t.Context(), world, "999999", time.Now())
	require.EqualError(t, err, "999999: slurmctld knows no such job, and neither does accounting")
	require.ErrorIs(t, err, why.ErrNoJob)
	swap(c.SlurmConf)
}
