//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stepsDie: a container ends with steps whose sruns, elsewhere, wait for them, and is back within a second. The sruns do
// not notice, whatever slurmctld tells them: the jobs would be RUNNING until their time is over.
func stepsDie(t *testing.T, c *cluster) {
	for i := 2; i < 4; i++ {
		spec := c.Node(i)
		spec.CPU, spec.Env["SLURMLET_CPU_LIMIT"] = 3, "3000"
		require.NoError(t, c.Create(t.Context(), spec))
		defer c.removeNode(t, spec.Name)
	}
	c.waitReady(t, "node-2", "node-3")
	const wide = `[ -n "$SLURM_RESTART_COUNT" ] || srun sleep 1000; echo end`
	batch := []string{"-w", "node-[2-3]", "-N2", "--ntasks-per-node=1", "--mem=32"}
	again, left := c.submit(t, wide, append(batch, "--requeue")...), c.submit(t, wide, append(batch, "--no-requeue")...)
	host := c.waitJob(t, again, "RUNNING")["BatchHost"]
	require.Equal(t, host, c.waitJob(t, left, "RUNNING")["BatchHost"])
	other := map[string]string{"node-2": "node-3", "node-3": "node-2"}[host]
	c.waitTasks(t, other, "sleep", 2)
	require.NoError(t, c.Restart(t.Context(), other, 0))
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
