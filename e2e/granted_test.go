//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// killedSooner: three pods with a day to end get SIGKILL after a minute. Nobody has told
// the first; the second's grace period says so, and the third hears of it when it is
// on its way down. The agents of the last two have their jobs
// requeued before. The first's job is RUNNING for slurmctld until a pod of that name
// registers.
func killedSooner(t *testing.T, c *cluster) {
	const day, granted = 24 * time.Hour, time.Minute
	ignorant := c.leaver(2, day)
	c.leavers(t, ignorant, c.leaver(3, granted), c.leaver(4, day))
	c.close(t, "node-[0-1]")
	jobs := map[string]string{}
	for _, node := range []string{"node-2", "node-3", "node-4"} {
		// No job asks for a node by its name: Slurm holds one whose node is deleted.
		c.close(t, "node-[2-4]")
		c.open(t, node)
		jobs[node] = c.submit(t, twice+"sleep 1000", "--requeue", "--mem=64")
		c.waitJob(t, jobs[node], "RUNNING")
	}
	c.open(t, "node-[2-3]")

	type ended struct {
		pod sandbox.PodStatus
		err error
	}
	begun, ends := time.Now(), map[string]chan ended{}
	for node := range jobs {
		ends[node] = make(chan ended, 1)
		go func() {
			last, err := c.End(t.Context(), node, granted)
			ends[node] <- ended{last, err}
		}()
	}
	c.waitPatient(t, "node-4")
	c.run(t, "node-4", "slurmlet", "deadline", begun.Add(granted).Format(time.RFC3339))
	for node, code := range map[string]int{"node-2": 128 + 9, "node-3": agent.ExitOK, "node-4": agent.ExitOK} {
		e := <-ends[node]
		require.NoError(t, e.err)
		assert.Equal(t, code, e.pod.ExitCode, node)
	}
	for _, node := range []string{"node-3", "node-4"} {
		job := c.job(t, jobs[node])
		assert.Equal(t, []string{"PENDING", "1"}, []string{job["JobState"], job["Restarts"]}, "the job of %s", node)
		assert.Nil(t, c.record(t, node))
	}
	lost := c.job(t, jobs["node-2"])
	assert.Equal(t, []string{"RUNNING", "0"}, []string{lost["JobState"], lost["Restarts"]}, "slurmctld has not heard of its end")

	require.NoError(t, c.Create(t.Context(), ignorant))
	c.waitReady(t, "node-2")
	until(t, "the job of the pod that was not told is started anew", func() (bool, string) {
		job := c.job(t, jobs["node-2"])
		return job["Restarts"] == "1", job["JobState"]
	})
	c.open(t, "node-[0-1]")
	for node, id := range jobs {
		assert.Equal(t, "1", c.completesAnew(t, id)["Restarts"], node)
	}
	c.removeNode(t, "node-2")
}
