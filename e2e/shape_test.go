//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmd"
)

// Pods with CPUs of their own want a cluster that binds jobs; those with a
// quota want one that does not. The machine has the CPUs 0 to 2.
func podsWithCPUs(t *testing.T, c *cluster) {
	c.configure(t, c.with("TaskPlugin=task/cgroup,task/affinity", "ConstrainCores=yes"))
	first, second, half := c.Node(2), c.Node(3), c.Node(4)
	first.CPU, first.CPUSet, first.Capabilities = 0, "1", sysNice
	second.CPU, second.CPUSet, second.Capabilities = 0, "2", sysNice
	half.CPU = 1.5
	for _, spec := range []sandbox.PodSpec{first, second, half} {
		delete(spec.Env, "SLURMLET_CPU_LIMIT")
	}
	plain := c.plain("plain", "1")
	require.NoError(t, c.CreateAll(t.Context(), first, second, half, plain))
	c.waitReady(t, first.Name, second.Name, half.Name)

	pinned(t, c, first.Name, "0,2", "1")
	pinned(t, c, second.Name, "0-1", "2")
	ownCPUs(t, c, first.Name, second.Name)
	record := c.record(t, half.Name)
	assert.Equal(t, []any{1, 1, ""}, []any{record.CPUs, record.CPUsEffective, string(record.SpecializedCPUs)}, "one and a half CPUs")
	const affinity = "TaskPlugin=task/cgroup,task/affinity: want task/cgroup without task/affinity (slurm.conf)"
	misfits(t, c, half.Name, affinity+", or the capability SYS_NICE", affinity+": the pod has a quota", "ConstrainCores=yes: want no")
	failsEveryLaunch(t, c, plain.Name)
	c.configure(t, c.with("TaskPlugin=task/cgroup", "ConstrainCores=yes"))
	first.Capabilities = nil
	movesOn(t, c, first)

	for _, name := range []string{first.Name, second.Name, half.Name, plain.Name} {
		c.removeNode(t, name)
	}
	c.configure(t, c.Cluster)
	misfits(t, c, "node-0")
}

// sysNice is containerd's default set, and what slurmstepd needs for task/affinity.
var sysNice = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID", "CAP_SETFCAP",
	"CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE", "CAP_SYS_NICE",
}

// with is the cluster with two other settings.
func (c *cluster) with(taskPlugin, constrainCores string) sandbox.Cluster {
	other := c.Cluster
	other.SlurmConf = strings.Replace(other.SlurmConf, "TaskPlugin=task/cgroup", taskPlugin, 1)
	other.CgroupConf = strings.Replace(other.CgroupConf, "ConstrainCores=no", constrainCores, 1)
	return other
}

// configure changes the cluster's files and has all daemons read them.
func (c *cluster) configure(t *testing.T, to sandbox.Cluster) {
	t.Helper()
	before := map[string]int{}
	for _, pod := range []string{"node-0", "node-1"} {
		before[pod] = c.agent(t, pod).Main.PID
	}
	files := map[string]sandbox.File{"slurm.conf": {Data: []byte(to.SlurmConf)}, "cgroup.conf": {Data: []byte(to.CgroupConf)}}
	require.NoError(t, c.SetFiles(t.Context(), sandbox.Slurmctld, "etc", files))
	c.run(t, sandbox.Slurmctld, "slurmlet", "reload")
	for pod, pid := range before {
		until(t, pod+" works with the new files", func() (bool, string) {
			s := c.agent(t, pod)
			return s.State == supervisor.Ready && s.Main.PID != pid, string(s.State) + " " + s.Reason
		})
	}
	c.waitReady(t, sandbox.Slurmctld, "node-0", "node-1")
}

// plain is slurmd without an agent in a cpuset, in a cgroup prepared as the
// agent would, but with --conf as one would write it.
func (c *cluster) plain(name, cpus string) sandbox.PodSpec {
	spec := c.Node(5)
	spec.Name, spec.Role, spec.CPU, spec.CPUSet, spec.Capabilities = name, "", 0, cpus, sysNice
	script := `cd /sys/fs/cgroup && mkdir slurmd && echo 1 > slurmd/cgroup.procs && mkdir -p system.slice/$0_slurmstepd.scope
for at in . system.slice; do for one in $(cat cgroup.controllers); do echo +$one > $at/cgroup.subtree_control; done; done
exec slurmd -D -Z -N $0 --conf-server slurmctld:6817 --conf "CPUs=1 RealMemory=400"`
	spec.Args = []string{"/bin/sh", "-c", script, name}
	return spec
}

// pinned: the record has the machine's CPUs, of which all but the pod's are reserved.
func pinned(t *testing.T, c *cluster, node, reserved, cpus string) {
	t.Helper()
	record := c.record(t, node)
	require.NotNil(t, record)
	assert.Equal(t, []any{3, 1, reserved}, []any{record.CPUs, record.CPUsEffective, string(record.SpecializedCPUs)}, node)
	assert.Contains(t, c.run(t, sandbox.Slurmctld, "scontrol", "show", "node", node), "CfgTRES=cpu=1,")
	status := c.agent(t, node).Node
	assert.Equal(t, cpus, status.Limits.CPUSet.Value.String())
	misfits(t, c, node)
}

// ownCPUs: jobs of several pods run at the same time, each on its pod's CPU.
func ownCPUs(t *testing.T, c *cluster, first, second string) {
	t.Helper()
	where := func(option ...string) map[string]string {
		out := c.as(t, "alice", "login", append(append([]string{"srun"}, option...), "sh", "-c",
			`echo $SLURMD_NODENAME $(grep Cpus_allowed_list /proc/self/status)`)...)
		cpus := map[string]string{}
		for line := range strings.Lines(out) {
			fields := strings.Fields(line)
			require.Len(t, fields, 3, out)
			cpus[fields[0]] = fields[2]
		}
		return cpus
	}
	both := map[string]string{first: "1", second: "2"}
	assert.Equal(t, both, where("-N2", "-w", first+","+second))
	assert.Equal(t, both, where("-N2", "-w", first+","+second, "--cpu-bind=cores"))
	id := c.submit(t, "grep Cpus_allowed_list /proc/self/status; srun grep Cpus_allowed_list /proc/self/status", "-w", second)
	c.waitJob(t, id, "COMPLETED")
	assert.Equal(t, strings.Repeat("Cpus_allowed_list:\t2\n", 2), c.run(t, "login", "cat", "/shared/"+id+".out"))
}

// misfits waits for the comparison with the cluster's present configuration.
func misfits(t *testing.T, c *cluster, node string, want ...string) {
	t.Helper()
	until(t, node+" has compared the cluster's configuration with its pod", func() (bool, string) {
		found := c.agent(t, node).Node.Fit
		if found == nil || len(found.Mismatches) != len(want) {
			return false, stringOf(found)
		}
		for i, m := range found.Mismatches {
			if !strings.HasPrefix(m.String(), want[i]) {
				return false, m.String()
			}
		}
		return true, ""
	})
}

func stringOf(found *slurmd.MismatchStatus) string {
	if found == nil {
		return "nothing"
	}
	text := found.Error
	for _, m := range found.Mismatches {
		text += "; " + m.String()
	}
	return text
}

// failsEveryLaunch is the control: with the count alone, Slurm binds to the
// machine's first CPUs, which are not the pod's.
func failsEveryLaunch(t *testing.T, c *cluster, node string) {
	t.Helper()
	var record *slurm.Node
	until(t, node+" is idle", func() (bool, string) {
		record = c.record(t, node)
		return record != nil && record.Is("IDLE") && record.Responding(), "no such record, or another state"
	})
	assert.Equal(t, 1, record.CPUs)
	for range 2 {
		_, stderr, code, err := c.ExecAs(t.Context(), "login", sandbox.How{User: "alice", Dir: "/tmp"}, "srun", "-w", node, "true")
		require.NoError(t, err)
		assert.NotZero(t, code, stderr)
		assert.Contains(t, stderr, "task_g_set_affinity")
	}
}

// movesOn: a pod that has crashed and comes back with another CPU is registered anew; its old
// record's CpuSpecList makes slurmctld refuse it ("CoreSpec differ"). task/cgroup
// alone holds its jobs to the CPU, and needs no capability.
func movesOn(t *testing.T, c *cluster, spec sandbox.PodSpec) {
	t.Helper()
	require.NoError(t, c.Delete(t.Context(), spec.Name, 0))
	spec.CPUSet = "0"
	require.NoError(t, c.Create(t.Context(), spec))
	c.waitReady(t, spec.Name)
	pinned(t, c, spec.Name, "1-2", "0")
	assert.Equal(t, "Cpus_allowed_list:\t0\n", c.as(t, "alice", "login", "srun", "-w", spec.Name, "grep", "Cpus_allowed_list", "/proc/self/status"))
}
