//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// stepsDieWith: a container ends with steps whose sruns, elsewhere, wait for them, and the node is back within a second.
// The sruns do not notice, whatever slurmctld tells them: the jobs would be RUNNING until their time is over.
func stepsDieWith(comeBack func(t *testing.T, c *cluster, pod sandbox.PodSpec)) func(t *testing.T, c *cluster) {
	return func(t *testing.T, c *cluster) { stepsDie(t, c, comeBack) }
}

// theContainer is started anew, with the spool directory of the former one.
func theContainer(t *testing.T, c *cluster, pod sandbox.PodSpec) {
	require.NoError(t, c.Restart(t.Context(), pod.Name, 0))
}

// anotherPod has the name, and nothing of what the former one has left.
func anotherPod(t *testing.T, c *cluster, pod sandbox.PodSpec) {
	require.NoError(t, c.Delete(t.Context(), pod.Name, 0))
	require.NoError(t, c.Create(t.Context(), pod))
}

func stepsDie(t *testing.T, c *cluster, comeBack func(t *testing.T, c *cluster, pod sandbox.PodSpec)) {
	specs := map[string]sandbox.PodSpec{}
	for i := 2; i < 4; i++ {
		spec := c.Node(i)
		spec.CPU, spec.Env["SLURMLET_CPU_LIMIT"] = 3, "3000"
		require.NoError(t, c.Create(t.Context(), spec))
		defer c.removeNode(t, spec.Name)
		specs[spec.Name] = spec
	}
	c.waitReady(t, "node-2", "node-3")
	const wide = `[ -n "$SLURM_RESTART_COUNT" ] || srun -v sleep 1000; echo end`
	batch := []string{"-w", "node-[2-3]", "-N2", "--ntasks-per-node=1", "--mem=32"}
	again, left := c.submit(t, wide, append(batch, "--requeue")...), c.submit(t, wide, append(batch, "--no-requeue")...)
	host := c.waitJob(t, again, "RUNNING")["BatchHost"]
	require.Equal(t, host, c.waitJob(t, left, "RUNNING")["BatchHost"])
	other := map[string]string{"node-2": "node-3", "node-3": "node-2"}[host]
	c.waitTasks(t, other, "sleep", 2)
	for _, id := range []string{again, left} { // an srun that still launches ends by itself, after half a minute
		until(t, "the srun of job "+id+" knows of its tasks", func() (bool, string) {
			told := c.run(t, "login", "cat", "/shared/"+id+".out")
			return strings.Count(told, "1 tasks started") == 2, told
		})
	}
	comeBack(t, c, specs[other])
	c.waitReady(t, other)
	young := c.submit(t, waits, "-w", other, "--mem=32")
	assert.Equal(t, "1", c.completesAnew(t, again)["Restarts"])
	c.waitJob(t, left, "CANCELLED")
	assert.Contains(t, c.run(t, "login", "scontrol", "show", "job", left), "AdminComment=slurmlet: step "+left+".0 died with the container of "+other)
	c.let(t, young)
	c.waitJob(t, young, "COMPLETED")
}

// waitTasks waits for processes of this name.
func (c *cluster) waitTasks(t *testing.T, pod, name string, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d times %s runs in %s", n, name, pod), func() (bool, string) {
		out := c.run(t, pod, "ps", "-eo", "comm=")
		others := slices.DeleteFunc(strings.Fields(out), func(one string) bool { return one == name })
		return len(strings.Fields(out))-len(others) == n, out
	})
}
