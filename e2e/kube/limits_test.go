//go:build e2e

package kube

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/internal/kubebed"
)

func limits(t *testing.T, b *kubebed.Bed) {
	apply(t, b, "hungry.yaml")
	defer remove(t, b, "hungry.yaml")
	const eater, other = ".status.containerStatuses[?(@.name=='eater')]", ".status.containerStatuses[?(@.name=='other')]"
	until(t, "the kernel kills the container", func() (bool, string) {
		saw := field(t, b, "pod/hungry", eater+".state.terminated.reason")
		return saw == "OOMKilled", saw
	})
	assert.Equal(t, "137", field(t, b, "pod/hungry", eater+".state.terminated.exitCode"))
	assert.Empty(t, kubectl(t, b, "logs", "hungry", "-c", "eater"))
	assert.NotEmpty(t, field(t, b, "pod/hungry", other+".state.running"), "the other one lives on")

	inside := func() string {
		return strings.ReplaceAll(kubectl(t, b, "exec", "hungry", "-c", "other", "--", "cat", "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/memory.max"), "\n", " ")
	}
	assert.Equal(t, "50000 100000 67108864", inside())
	kubectl(t, b, "patch", "pod", "hungry", "--subresource", "resize", "--patch",
		`{"spec":{"containers":[{"name":"other","resources":{"limits":{"cpu":"750m","memory":"96Mi"}}}]}}`)
	until(t, "the kernel has the new limits", func() (bool, string) {
		saw := inside()
		return saw == "75000 100000 100663296", saw
	})
	until(t, "the pod's status has them", func() (bool, string) {
		saw := field(t, b, "pod/hungry", other+".resources.limits")
		return strings.Contains(saw, "750m") && strings.Contains(saw, "96Mi"), saw
	})
	assert.Equal(t, "0", field(t, b, "pod/hungry", other+".restartCount"))
}
