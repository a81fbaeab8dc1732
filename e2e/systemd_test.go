//go:build e2e

package e2e

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// The machine beside the cluster, and the unit in it.
const (
	outside       = "outside"
	theUnit       = "slurmlet@slurmd.service"
	slurmctldUnit = "slurmlet@slurmctld.service"
)

// machine is one with Debian's systemd, as far as it runs in a container, and the
// unit file that users get: what the pod runs otherwise, it runs as unit.
func machine(t *testing.T, pod sandbox.PodSpec, unit string) sandbox.PodSpec {
	t.Helper()
	text, err := os.ReadFile("../images/slurmlet@.service")
	require.NoError(t, err)
	var env strings.Builder
	for _, name := range []string{"SLURM_CONF", "SLURMLET_SLURMCTLD", "SLURMLET_NODE_NAME"} {
		if value, set := pod.Env[name]; set {
			env.WriteString(name + "=" + value + "\n")
		}
	}
	settings := pod.Role + ".env"
	pod.Role, pod.Env = "", map[string]string{"container": "oci"}
	// systemd takes its host name from the image, if it is not told.
	pod.Args = []string{"/usr/lib/systemd/systemd", "--unit=" + unit, "systemd.hostname=" + pod.Name}
	for _, name := range []string{
		"AUDIT_CONTROL", "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_OWNER", "KILL", "NET_ADMIN", "NET_BIND_SERVICE", "SETFCAP",
		"SETGID", "SETPCAP", "SETUID", "SYS_ADMIN", "SYS_CHROOT", "SYS_NICE", "SYS_PTRACE", "SYS_RESOURCE",
	} {
		pod.Capabilities = append(pod.Capabilities, "CAP_"+name)
	}
	pod.Volumes = append(
		pod.Volumes,
		sandbox.Volume{Name: "units", Path: "/etc/systemd/system", Files: map[string]sandbox.File{"slurmlet@.service": {Data: text}}},
		sandbox.Volume{Name: "settings", Path: "/etc/slurmlet", Files: map[string]sandbox.File{settings: {Data: []byte(env.String())}}},
		// An alarm sooner than after half a minute.
		sandbox.Volume{Name: "drop-in", Path: "/etc/systemd/system.control/" + unit + ".d", Files: map[string]sandbox.File{
			"watchdog.conf": {Data: []byte("[Service]\nWatchdogSec=5s\nRestartSec=100ms\n")},
		}},
	)
	return pod
}

// property is what systemd says of the unit.
func (c *cluster) property(t *testing.T, name string) string {
	t.Helper()
	stdout, stderr, _, err := c.Exec(t.Context(), outside, "systemctl", "show", "-P", name, theUnit)
	require.NoError(t, err)
	return strings.TrimSpace(stdout + stderr)
}

// waitUnit waits until the unit is in a state.
func (c *cluster) waitUnit(t *testing.T, state string) {
	t.Helper()
	until(t, "the unit is "+state, func() (bool, string) {
		now := c.property(t, "ActiveState")
		return now == state, now + " " + c.property(t, "StatusText")
	})
}

var systemdCases = []testCase{
	{"a node under systemd", underSystemd, either},
	{"slurmctld under systemd", slurmctldUnderSystemd, either},
}

// underSystemd: a node of a cluster that is elsewhere.
func underSystemd(t *testing.T, c *cluster) {
	require.NoError(t, c.Delete(t.Context(), sandbox.Slurmctld, grace))
	spec := c.Node(2)
	spec.Name, spec.Env["SLURMLET_NODE_NAME"] = outside, outside
	require.NoError(t, c.Create(t.Context(), machine(t, spec, theUnit)))
	until(t, "the unit says what it waits for", func() (bool, string) {
		text := c.property(t, "StatusText")
		return strings.Contains(text, "cannot reach slurmctld"), text
	})
	assert.Equal(t, "activating", c.property(t, "ActiveState"))
	require.NoError(t, c.Create(t.Context(), c.Slurmctld()))
	c.waitUnit(t, "active")
	record := c.record(t, outside)
	require.NotNil(t, record, "it is active when the node is registered")
	assert.Equal(t, []any{1, int64(448)}, []any{record.CPUs, record.RealMemory})
	assert.Equal(t, "Ready", c.property(t, "StatusText"))
	assert.Equal(t, outside+"\n", c.as(t, sandbox.User, "login", "srun", "-w", outside, "printenv", "SLURMD_NODENAME"))

	t.Run("reload", func(t *testing.T) {
		before := c.agent(t, outside).Main.PID
		c.run(t, outside, "systemctl", "reload", theUnit)
		now := c.agent(t, outside)
		assert.Equal(t, supervisor.Ready, now.State, "it is over when the command is")
		assert.NotEqual(t, before, now.Main.PID)
		assert.Equal(t, "active", c.property(t, "ActiveState"))
	})
	t.Run("the watchdog", func(t *testing.T) {
		before := c.property(t, "MainPID")
		c.run(t, outside, "kill", "-STOP", before)
		until(t, "the unit is started again", func() (bool, string) {
			now := c.property(t, "MainPID")
			return now != before && c.property(t, "ActiveState") == "active", now + " " + c.property(t, "Result")
		})
		assert.Equal(t, "1", c.property(t, "NRestarts"), "and before, the agent was heard in time")
	})
	t.Run("stop", func(t *testing.T) {
		id := c.submit(t, "sleep 8; echo done", "-w", outside, "--no-requeue")
		c.waitJob(t, id, "RUNNING")
		began := time.Now()
		c.run(t, outside, "systemctl", "stop", theUnit)
		t.Logf("stopped within %v", time.Since(began))
		assert.Equal(t, "COMPLETED", c.waitJob(t, id, "COMPLETED")["JobState"])
		assert.Equal(t, "done\n", c.run(t, "login", "cat", sandbox.Workdir+"/"+id+".out"), "the job had its time")
		assert.Nil(t, c.record(t, outside))
		assert.Equal(t, "inactive success", c.property(t, "ActiveState")+" "+c.property(t, "Result"))
		limit, err := strconv.Atoi(strings.TrimSuffix(c.property(t, "TimeoutStopUSec"), "min"))
		require.NoError(t, err)
		assert.Less(t, time.Since(began), time.Duration(limit)*time.Minute)
	})
	require.NoError(t, c.Delete(t.Context(), outside, 0))
	c.waitReady(t, sandbox.Slurmctld, "node-0", "node-1", "login")
}

// slurmctldUnderSystemd: the reverse, nodes in pods and slurmctld elsewhere.
func slurmctldUnderSystemd(t *testing.T, c *cluster) {
	id := c.submit(t, "sleep 20; echo done", "-w", "node-0", "--no-requeue")
	c.waitJob(t, id, "RUNNING")
	c.replace(t, machine(t, c.Slurmctld(), slurmctldUnit))
	assert.Equal(t, "active\n", c.run(t, sandbox.Slurmctld, "systemctl", "is-active", slurmctldUnit))
	assert.ElementsMatch(t, []string{"node-0", "node-1"}, strings.Fields(c.as(t, sandbox.User, "login", "srun", "-N2", "hostname")))
	before := c.agent(t, sandbox.Slurmctld).Main.PID
	c.run(t, sandbox.Slurmctld, "systemctl", "reload", slurmctldUnit)
	assert.NotEqual(t, before, c.agent(t, sandbox.Slurmctld).Main.PID)
	assert.Equal(t, "0", c.waitJob(t, id, "COMPLETED")["Restarts"])
	c.run(t, sandbox.Slurmctld, "systemctl", "stop", slurmctldUnit)
	require.NoError(t, c.Delete(t.Context(), sandbox.Slurmctld, 0))
	require.NoError(t, c.Create(t.Context(), c.Slurmctld()))
	c.waitReady(t, sandbox.Slurmctld, "node-0", "node-1", "login")
}
