//go:build e2e

package e2e

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// stockSlurmd is what a pod gets whose PID 1 is slurmd itself, in the same
// cluster and with the limits of node-0: the README's table.
func stockSlurmd(t *testing.T, c *cluster) {
	stock := c.Node(2)
	stock.Restart = "Never"
	stock.Args = []string{"/usr/sbin/slurmd", "-D", "-Z", "-N", stock.Name, "--conf-server", sandbox.Slurmctld}
	require.NoError(t, c.Create(t.Context(), stock))
	assert.NotZero(t, c.waitExit(t, stock.Name))
	c.logs(t, stock.Name, "cannot connect to dbus")
	require.NoError(t, c.Delete(t.Context(), stock.Name, 0))

	c.withCgroupConf(t, c.CgroupConf+"IgnoreSystemd=yes\n")
	require.NoError(t, c.Create(t.Context(), stock))
	var cpus int
	until(t, "slurmd registers", func() (bool, string) {
		record := c.record(t, stock.Name)
		if record == nil || !record.Responding() {
			return false, "no record"
		}
		cpus = record.CPUs
		assert.Greater(t, record.RealMemory, stock.Memory>>20, "the machine's memory, not the pod's")
		return true, ""
	})
	// Of another pod: a slurmd that reconfigures ends for a process of exec's in its cgroup.
	online := strings.Fields(c.run(t, "login", "cat", "/sys/devices/system/cpu/online"))[0]
	assert.Equal(t, "0-"+strconv.Itoa(cpus-1), online, "the machine's CPUs, not the pod's")
	c.removeNode(t, stock.Name)

	stock.CgroupReadOnly = true
	require.NoError(t, c.Create(t.Context(), stock))
	assert.NotZero(t, c.waitExit(t, stock.Name))
	c.logs(t, stock.Name, "Read-only file system")
	require.NoError(t, c.Delete(t.Context(), stock.Name, 0))
	c.withCgroupConf(t, c.CgroupConf)
}

// withCgroupConf makes slurmctld anew with another cgroup.conf. Nodes that are
// there keep theirs: only a reconfigure would push it.
func (c *cluster) withCgroupConf(t *testing.T, text string) {
	t.Helper()
	slurmctld := c.Slurmctld()
	slurmctld.Volumes[1].Files["cgroup.conf"] = sandbox.File{Data: []byte(text)}
	require.NoError(t, c.Delete(t.Context(), sandbox.Slurmctld, grace))
	require.NoError(t, c.Create(t.Context(), slurmctld))
	c.waitReady(t, sandbox.Slurmctld)
}

func (c *cluster) logs(t *testing.T, pod, text string) {
	t.Helper()
	log, err := c.Logs(t.Context(), pod)
	require.NoError(t, err)
	assert.Contains(t, log, text)
}
