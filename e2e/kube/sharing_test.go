//go:build e2e

package kube

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// machines is the set whose nodes are their machines.
const machines = "daemonset/slurm-machines"

// shareMachines has machines take the place of nodes that are pods, in a release that is installed.
func shareMachines(t *testing.T, c *cluster) {
	c.upgrade(t, "--set", "nodeSets.cpu.replicas=0,nodeSets.machines.size=node,nodeSets.machines.sharing=kubernetes",
		"--set", "nodeSets.machines.reserve.cpu=0,nodeSets.machines.reserve.memory=1Gi")
	c.kubectl(t, "rollout", "status", machines, "--timeout", limit.String())
	for _, machine := range []string{"kube-1", "kube-2"} {
		node := c.slurmdOf(t, machine)
		cpus, err := strconv.Atoi(c.field(t, "node/"+machine, ".status.allocatable.cpu"))
		require.NoError(t, err)
		kib, err := strconv.ParseInt(strings.TrimSuffix(c.field(t, "node/"+machine, ".status.allocatable.memory"), "Ki"), 10, 64)
		require.NoError(t, err)
		want := fmt.Sprintf("idle %d %d", cpus, kib>>10-1024-64)
		until(t, machine+" is a node of what it can give, less the reserve", func() (bool, string) {
			saw := c.node(t, node)
			return saw == want, saw + ", not " + want
		})
		assert.Equal(t, "system-node-critical 2000001000", c.field(t, "pod/"+node, ".spec.priorityClassName} {.spec.priority"))
		assert.Equal(t, "-997", c.kubectl(t, "exec", node, "--", "cat", "/proc/1/oom_score_adj"), "slurmd is the last that the kernel ends")
		assert.Equal(t, "0", strings.TrimSpace(c.slurm(t, "srun -w "+node+" --mem=50 cat /proc/self/oom_score_adj")), "and users' processes are not")
	}
	assert.Contains(t, c.slurm(t, "scontrol show config | grep MCSPlugin"), "mcs/label")
}

// slurmdOf is the pod of the slurmd on a machine, which is the node's name.
func (c *cluster) slurmdOf(t *testing.T, machine string) string {
	t.Helper()
	return c.kubectl(t, "get", "pods", "-l", "slurmlet.dev/node-set=machines", "--field-selector", "spec.nodeName="+machine, "-o", "jsonpath={.items[*].metadata.name}")
}

// takeTurns: a pod waits for a job of its machine, and a job for pods of its node.
func takeTurns(t *testing.T, c *cluster) {
	hog := c.running(t, "sleep 1000", "-N2", "--mem=50")
	c.queued(t, team, "turn", "sleep 10")
	until(t, "the pod waits beside a job that leaves room for it", func() (bool, string) {
		saw := c.kubectl(t, "get", "events", "-n", team, "--field-selector", "involvedObject.name=turn,reason=Waiting", "-o", "jsonpath={.items[*].message}")
		return strings.Contains(saw, "waits: "), saw
	})
	c.slurm(t, "scancel "+hog.id)
	c.phase(t, "turn", "Running")
	next := c.submit(t, "true", "--mem=50", "-w", c.jobOf(t, "turn", "%N"))
	until(t, "the job waits for the pod", func() (bool, string) {
		state := next.is(t, "JobState") // before the pod's phase
		if state == "PENDING" {
			return false, state
		}
		assert.Equal(t, "Succeeded", c.pod(t, "turn", ".status.phase"), "the pod ends before the job begins")
		return true, state
	})
	next.completes(t, "0")
	c.kubectl(t, "delete", "pod", "-n", team, "turn")
}

// shareNodes: two pods of two jobs are on one machine.
func shareNodes(t *testing.T, c *cluster) {
	for _, name := range []string{"one", "two"} {
		require.NoError(t, c.Apply(t.Context(), fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s, annotations: {slurmjob.slinky.slurm.net/job-name: %s-job}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  nodeSelector: {kubernetes.io/hostname: kube-2}
  containers:
  - name: c
    image: %s
    imagePullPolicy: Never
    command: [sh, -c, "sleep 1000"]
    resources: {requests: {cpu: 50m, memory: 32Mi}}
`, name, team, name, plainImage+c.version)))
	}
	for _, name := range []string{"one", "two"} {
		c.phase(t, name, "Running")
		assert.Equal(t, "R "+c.slurmdOf(t, "kube-2"), c.jobOf(t, name, "%t %N"))
	}
	assert.Equal(t, "Running", c.pod(t, "one", ".status.phase"), "beside the other one")
	c.kubectl(t, "delete", "pod", "-n", team, "one", "two")
	until(t, "the node is idle", func() (bool, string) {
		saw := c.node(t, c.slurmdOf(t, "kube-2"))
		return strings.HasPrefix(saw, "idle "), saw
	})
}

// refuseCritical: a pod that would have slurmd's pod go is refused where somebody writes it.
func refuseCritical(t *testing.T, c *cluster) {
	err := c.Apply(t.Context(), fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: critical, namespace: %s}
spec:
  priorityClassName: system-cluster-critical
  containers: [{name: c, image: %s}]
`, team, plainImage+c.version))
	require.ErrorContains(t, err, "the pod's priority is 2000000000, of the priorityClassName system-cluster-critical, and less than 2000000000 is allowed in Slurm's queue")
}
