//go:build e2e

package kube

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// onSecond is the pod that is on the second machine.
func (c *cluster) onSecond(t *testing.T) string {
	t.Helper()
	return c.kubectl(t, "get", "pods", "-l", "slurmlet.dev/role=slurmd", "--field-selector", "spec.nodeName="+second, "-o", "jsonpath={.items[0].metadata.name}")
}

func deletePod(t *testing.T, c *cluster) {
	j := c.running(t, "sleep 15", "-w", "slurm-cpu-0")
	c.kubectl(t, "delete", "pod", "slurm-cpu-0")
	j.completes(t, "0")
	c.bothIdle(t)
}

func drain(t *testing.T, c *cluster) {
	pod := c.onSecond(t)
	j := c.running(t, "sleep 15", "-w", pod)
	c.kubectl(t, "drain", second, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout", limit.String())
	j.completes(t, "0")
	c.submit(t, "true").completes(t, "0") // on the other one
	c.kubectl(t, "uncordon", second)
	c.bothIdle(t)
}

func scale(t *testing.T, c *cluster) {
	j := c.running(t, "sleep 15", "-w", "slurm-cpu-1")
	c.kubectl(t, "scale", set, "--replicas=1")
	c.gone(t, "slurm-cpu-1")
	j.completes(t, "0")
	c.kubectl(t, "scale", set, "--replicas=2")
	c.bothIdle(t)
}

// restartController: one job runs meanwhile, and one that waits gets its turn.
func restartController(t *testing.T, c *cluster) {
	runs := c.running(t, "sleep 15", "-w", "slurm-cpu-0")
	waits := c.submit(t, "true", "-w", "slurm-cpu-0")
	c.kubectl(t, "rollout", "restart", "statefulset/slurm-slurmctld")
	c.kubectl(t, "rollout", "status", "statefulset/slurm-slurmctld", "--timeout", limit.String())
	runs.completes(t, "0")
	waits.completes(t, "0")
	c.bothIdle(t)
}

// resize: the record follows the pod, once its job is over, and no container is
// started again.
func resize(t *testing.T, c *cluster) {
	to := func(cpu, memory string) {
		c.kubectl(t, "patch", "pod", "slurm-cpu-1", "--subresource", "resize", "--patch",
			`{"spec":{"containers":[{"name":"slurmd","resources":{"limits":{"cpu":"`+cpu+`","memory":"`+memory+`"}}}]}}`)
	}
	becomes := func(want string) {
		until(t, "slurm-cpu-1 is "+want, func() (bool, string) { saw := c.node(t, "slurm-cpu-1"); return saw == want, saw })
	}
	before := c.restarts(t)
	j := c.running(t, "sleep 15", "-w", "slurm-cpu-1")
	to("2", "768Mi")
	becomes("draining 1 448")
	j.completes(t, "0")
	becomes("idle 2 704")
	to("1", "512Mi")
	becomes("idle 1 448")
	assert.Equal(t, before, c.restarts(t))
}
