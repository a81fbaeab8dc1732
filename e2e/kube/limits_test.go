//go:build e2e

package kube

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func limits(t *testing.T, c *cluster) {
	c.apply(t, "hungry.yaml")
	defer c.kubectl(t, "delete", "--wait", "pod", "hungry")
	const eater, other = ".status.containerStatuses[?(@.name=='eater')]", ".status.containerStatuses[?(@.name=='other')]"
	until(t, "the kernel kills the container", func() (bool, string) {
		saw := c.field(t, "pod/hungry", eater+".state.terminated.reason")
		return saw == "OOMKilled", saw
	})
	assert.Equal(t, "137", c.field(t, "pod/hungry", eater+".state.terminated.exitCode"))
	assert.Empty(t, c.kubectl(t, "logs", "hungry", "-c", "eater"))
	assert.NotEmpty(t, c.field(t, "pod/hungry", other+".state.running"), "the other one lives on")

	inside := func() string {
		return strings.ReplaceAll(c.kubectl(t, "exec", "hungry", "-c", "other", "--", "cat", "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/memory.max"), "\n", " ")
	}
	assert.Equal(t, "50000 100000 67108864", inside())
	c.kubectl(t, "patch", "pod", "hungry", "--subresource", "resize", "--patch",
		`{"spec":{"containers":[{"name":"other","resources":{"limits":{"cpu":"750m","memory":"96Mi"}}}]}}`)
	until(t, "the kernel has the new limits", func() (bool, string) {
		saw := inside()
		return saw == "75000 100000 100663296", saw
	})
	until(t, "the pod's status has them", func() (bool, string) {
		saw := c.field(t, "pod/hungry", other+".resources.limits")
		return strings.Contains(saw, "750m") && strings.Contains(saw, "96Mi"), saw
	})
	assert.Equal(t, "0", c.field(t, "pod/hungry", other+".restartCount"))
}
