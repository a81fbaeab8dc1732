//go:build e2e

package kube

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// within is the cluster seen from a namespace of its own, which goes with the
// test. level is what Pod Security enforces there.
func (c *cluster) within(t *testing.T, namespace, level string) *cluster {
	t.Helper()
	there := &cluster{c.Bed, c.helm, c.version, namespace}
	c.kubectl(t, "create", "namespace", namespace)
	c.kubectl(t, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce="+level)
	t.Cleanup(func() {
		if t.Failed() {
			there.tell(t)
		}
		ctx := context.WithoutCancel(t.Context())
		_, err := c.Kubectl(ctx, "delete", "namespace", namespace, "--timeout", limit.String())
		assert.NoError(t, err)
	})
	return there
}

// Kubectl is the bed's, in the namespace.
func (c *cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlOn(ctx, "", args...)
}

// KubectlOn is the bed's, in the namespace.
func (c *cluster) KubectlOn(ctx context.Context, stdin string, args ...string) (string, error) {
	if c.namespace != "" {
		args = append([]string{"--namespace", c.namespace}, args...)
	}
	return c.Bed.KubectlOn(ctx, stdin, args...)
}

// ofVersion names where the images are, and the version of Slurm, but for the one that the chart has by itself.
func (c *cluster) ofVersion(args ...string) []string {
	args = append(args, "--set", "image.registry=localhost/slurmlet")
	if c.version != parts.Newest() {
		args = append(args, "--set", "image.slurm="+c.version)
	}
	return args
}

// bare: what somebody gets who tries the chart, on machines as they are installed.
// Nothing is enforced by cgroups, all of which is told, and the line that changes
// it does.
func bare(t *testing.T, c *cluster) {
	c = c.within(t, "bare", "baseline")
	said := c.runHelm(t, c.ofVersion("install", release, chart, "--wait", "--timeout", limit.String())...)
	assert.Contains(t, said, "No cgroup holds a job")
	c.bothIdle(t)
	assert.Equal(t, "idle 1 960", c.node(t, "slurm-cpu-0"))
	assert.Contains(t, c.runHelm(t, "test", release, "--timeout", limit.String()), "Succeeded")
	t.Run("what is not enforced is told", func(t *testing.T) { c.tellsUnenforced(t) })
	t.Run("a job over its memory is ended alone", func(t *testing.T) {
		before := c.restarts(t)
		saw := c.slurm(t, `srun --mem=50 perl -e '$x = "a" x (100 << 20); sleep 600' 2>&1 || true`)
		assert.Contains(t, saw, "Exceeded job memory limit")
		assert.Equal(t, before, c.restarts(t), "the container lives on")
		c.bothIdle(t)
	})
	const hungry = `perl -e '$x = "a" x (1100 << 20)'`
	t.Run("a job over the pod's memory ends the pod, and kubectl slurm says so", func(t *testing.T) {
		before := c.restarts(t)
		j := c.submit(t, hungry, "--mem=900", "-w", "slurm-cpu-1", "--no-requeue")
		until(t, "the kernel ends the pod's container", func() (bool, string) { saw := c.restarts(t); return saw != before, saw })
		c.bothIdle(t)
		c.says(t, "why "+j.id, "A node of the job was lost: slurm-cpu-1", "kubectl slurm why -n bare slurm-cpu-1")
		c.says(t, "why slurm-cpu-1", "It works", "OOMKilled", "have cgroups limit each job")
	})
	t.Run("the line that the notes name changes it", func(t *testing.T) {
		c.upgrade(t, "--set", "nodeSets.cpu.replicas=0")
		c.gone(t, "slurm-cpu-0")
		c.gone(t, "slurm-cpu-1")
		c.upgrade(t, "--set", "cgroup.runtimeClassName=cgroup-writable,nodeSets.cpu.replicas=2")
		until(t, "Slurm has cgroups", func() (bool, string) {
			saw := c.ask(t, "scontrol show config | grep ProctrackType")
			return strings.HasSuffix(saw, "= proctrack/cgroup"), saw
		})
		c.bothIdle(t)
		assert.Contains(t, c.slurm(t, `srun --mem=50 perl -e '$x = "a" x (100 << 20)' 2>&1 || true`), "Out Of Memory")
		before := c.restarts(t)
		c.submit(t, hungry, "--mem=900").becomes(t, "OUT_OF_MEMORY")
		assert.Equal(t, before, c.restarts(t), "the container lives on")
	})
	c.leave(t)
}

// tellsUnenforced: the status and the metrics of a node whose jobs no cgroup
// holds. Nor can the agent keep the container's limit from ending all of them.
func (c *cluster) tellsUnenforced(t *testing.T) {
	t.Helper()
	status := c.kubectl(t, "exec", "slurm-cpu-0", "--", "slurmlet", "status")
	assert.Contains(t, status, "no cgroup of the agent's holds a job to its memory, cores or devices")
	assert.Contains(t, status, "cgroup.runtimeClassName")
	for _, pod := range c.selected(t, map[string]string{"slurmlet.dev/role": "slurmd"}) {
		families := c.scrape(t, pod.target("agent")+"/metrics")
		require.NotNil(t, families["slurmlet_cgroup_enforced"])
		assert.InDelta(t, 0, families["slurmlet_cgroup_enforced"].Metric[0].GetGauge().GetValue(), 0)
	}
	const group = "/sys/fs/cgroup/memory.oom.group"
	assert.Equal(t, "1", c.kubectl(t, "exec", "slurm-cpu-0", "--", "cat", group), "the kubelet sets it")
	_, err := c.Kubectl(t.Context(), "exec", "slurm-cpu-0", "--", "sh", "-c", "echo 0 >"+group)
	require.ErrorContains(t, err, "Read-only file system")
}

// leave ends the release as its README says: nodes that slurmctld has let go first.
func (c *cluster) leave(t *testing.T) {
	t.Helper()
	c.kubectl(t, "scale", set, "--replicas=0")
	c.kubectl(t, "wait", "--for=delete", "pod", "-l", "slurmlet.dev/role=slurmd", "--timeout", limit.String())
	c.runHelm(t, "uninstall", release, "--wait", "--timeout", limit.String())
}

// restricted: pods that are root are not let in. The notes have the line that
// lets them in, and then the cluster comes up.
func restricted(t *testing.T, c *cluster) {
	c = c.within(t, "restricted", "restricted")
	said := c.runHelm(t, c.ofVersion("install", release, chart, "--set", "controller.persistence.enabled=false")...)
	until(t, "an event tells that slurmd is not let in", func() (bool, string) {
		saw := c.kubectl(t, "get", "events", "--field-selector", "involvedObject.name=slurm-cpu,reason=FailedCreate", "-o", "jsonpath={.items[*].message}")
		return strings.Contains(saw, `violates PodSecurity "restricted`), saw
	})
	_, line, found := strings.Cut(said, "    kubectl label namespace ")
	require.True(t, found, said)
	line, _, _ = strings.Cut(line, "\n")
	c.kubectl(t, append([]string{"label", "namespace"}, strings.Fields(line)...)...)
	c.bothIdle(t)
	c.submit(t, "true").completes(t, "0")
	c.leave(t)
}

// capability: on the same machines, without a runtime class, the agent makes its
// own cgroup writable, and the kernel holds jobs to theirs.
func capability(t *testing.T, c *cluster) {
	c = c.within(t, "capability", "privileged")
	c.install(t, "--set", "cgroup.access=capability,cgroup.runtimeClassName=,controller.persistence.enabled=false")
	assert.Empty(t, c.field(t, "pod/slurm-cpu-0", ".spec.runtimeClassName"))
	assert.Contains(t, c.kubectl(t, "exec", "slurm-cpu-0", "--", "slurmlet", "status"), "Slurm has a cgroup subtree (remounted)")
	jobLimits(t, c)
	c.changesConf(t)
	c.leave(t)
}

// changesConf: the nodes take an edit.
func (c *cluster) changesConf(t *testing.T) {
	t.Helper()
	c.upgrade(t, "--set", "slurm.conf.KillWait=18")
	until(t, "slurm.conf is live", func() (bool, string) {
		saw := c.ask(t, "scontrol show config | grep KillWait")
		return strings.HasSuffix(saw, "= 18 sec"), saw
	})
	c.bothIdle(t)
}

// wholeMachines: each of two machines has one node, and a third node waits for a
// machine rather than register what is another's.
func wholeMachines(t *testing.T, c *cluster) {
	c = c.within(t, "machines", "baseline")
	c.runHelm(t, c.ofVersion("install", release, chart, "--set",
		"controller.persistence.enabled=false,nodeDefaults.resources.limits.cpu=null,nodeDefaults.resources.limits.memory=null,nodeSets.cpu.replicas=3")...)
	until(t, "two nodes are idle, with their machines' CPUs", func() (bool, string) {
		saw := c.ask(t, "sinfo -h -p all -o '%D %T %c'")
		return saw == "2 idle 2", saw
	})
	var pods struct {
		Items []struct{ Spec struct{ NodeName string } }
	}
	require.NoError(t, json.Unmarshal([]byte(c.kubectl(t, "get", "pods", "-l", "slurmlet.dev/role=slurmd", "-o", "json")), &pods))
	on := map[string]int{}
	for _, pod := range pods.Items {
		on[pod.Spec.NodeName]++
	}
	assert.Equal(t, map[string]int{"kube-1": 1, "kube-2": 1, "": 1}, on)
	c.leave(t)
}
