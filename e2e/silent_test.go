//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// slurmdDeadAndCutOff: pods whose slurmd dies while slurmctld is cut off, and which are
// deleted then. Their jobs live until slurmctld can be told, or the time is over.
func slurmdDeadAndCutOff(t *testing.T, c *cluster) {
	const back, gone, grace = "node-2", "node-3", 40 * time.Second // jobs are requeued after 19 s
	defer c.leavers(t, c.leaver(2, grace), c.leaver(3, grace))()
	jobs := map[string]string{}
	for _, node := range []string{back, gone} {
		jobs[node] = c.submit(t, waits, "-w", node, "--mem=64", "--requeue")
		c.waitJob(t, jobs[node], "RUNNING")
		c.waitScript(t, node)
	}
	for node := range jobs {
		require.NoError(t, c.Link(t.Context(), node, false))
		c.run(t, node, "pkill", "-9", "-x", "slurmd")
		c.terminate(t, node)
	}
	for node := range jobs {
		until(t, node+" looks for slurmctld", func() (bool, string) {
			s, said := c.inside(t, node)
			return s.State == supervisor.Stopping && strings.Contains(s.Reason, "cannot reach slurmctld"), said
		})
		c.waitScript(t, node)
	}

	require.NoError(t, c.Link(t.Context(), back, true))
	c.waitDrained(t, back, reasonTerminate)
	c.let(t, jobs[back])
	_, took := c.left(t, back, grace, agent.ExitOK)
	t.Logf("%s: exit %v after SIGTERM", back, took)
	assert.Nil(t, c.record(t, back))
	job := c.waitJob(t, jobs[back], "COMPLETED")
	assert.Equal(t, "0", job["Restarts"])

	at, took := c.left(t, gone, grace, agent.ExitLeft)
	t.Logf("%s: exit %v after SIGTERM, at %v", gone, took, at)
	assert.Greater(t, took, 30*time.Second, "no job is killed before the time is over")
	assert.Equal(t, "RUNNING", c.job(t, jobs[gone])["JobState"], "nobody has told slurmctld of an end")
	require.NoError(t, c.Delete(t.Context(), gone, 0))
	require.NoError(t, c.Create(t.Context(), c.leaver(3, grace)))
	c.waitReady(t, gone)
	job = c.waitJob(t, jobs[gone], "PENDING")
	assert.Equal(t, "1", job["Restarts"])
	c.run(t, "node-0", "scancel", jobs[gone])
}

// waitScript waits until a job's script runs in a pod.
func (c *cluster) waitScript(t *testing.T, node string) {
	t.Helper()
	until(t, "a job's script runs in "+node, func() (bool, string) {
		out := c.run(t, node, "ps", "-eo", "args")
		return strings.Contains(out, "slurm_script"), out
	})
}

// slurmdHangs: a slurmd that is stopped gives scontrol no credentials. Its job ends in
// its own time.
func slurmdHangs(t *testing.T, c *cluster) {
	const node, grace = "node-2", 2 * time.Minute
	defer c.leavers(t, c.leaver(2, grace))()
	id := c.submit(t, waits, "-w", node, "--mem=64")
	c.waitJob(t, id, "RUNNING")
	c.waitScript(t, node)
	c.run(t, node, "pkill", "-STOP", "-x", "slurmd")
	c.terminate(t, node)
	c.waitDrained(t, node, reasonTerminate)
	c.let(t, id)
	_, took := c.left(t, node, grace, agent.ExitOK)
	t.Logf("exit %v after SIGTERM", took)
	job := c.waitJob(t, id, "COMPLETED")
	assert.Equal(t, "0", job["Restarts"])
	assert.Nil(t, c.record(t, node))
}
