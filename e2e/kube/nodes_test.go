//go:build e2e

package kube

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kubebed"
)

// second is the node that things happen to.
const second = "kube-2"

func nodeBecomes(t *testing.T, b *kubebed.Bed, want string) {
	t.Helper()
	until(t, second+"'s Ready is "+want, func() (bool, string) {
		saw := field(t, b, "node/"+second, ".status.conditions[?(@.type=='Ready')].status")
		return saw == want, saw
	})
}

// A kubelet is restarted in a moment; its containers know nothing of it.
func kubeletRestarts(t *testing.T, b *kubebed.Bed) {
	before, err := b.Exec(t.Context(), second, "pidof", "kubelet", "containerd")
	require.NoError(t, err)
	require.NoError(t, b.Stop(t.Context(), second, "kubelet"))
	_, err = b.Exec(t.Context(), second, "pidof", "kubelet")
	require.Error(t, err)
	require.NoError(t, b.Start(t.Context(), second, "kubelet"))
	nodeBecomes(t, b, "True")
	after, err := b.Exec(t.Context(), second, "pidof", "kubelet", "containerd")
	require.NoError(t, err)
	assert.NotEqual(t, before, after)
}

func cable(t *testing.T, b *kubebed.Bed) {
	require.NoError(t, b.Link(t.Context(), second, false))
	nodeBecomes(t, b, "Unknown")
	require.NoError(t, b.Link(t.Context(), second, true))
	nodeBecomes(t, b, "True")
}

func power(t *testing.T, b *kubebed.Bed) {
	boot := func() string { return field(t, b, "node/"+second, ".status.nodeInfo.bootID") }
	before := boot()
	require.NoError(t, b.PowerOff(t.Context(), second))
	_, err := b.Exec(t.Context(), second, "true")
	require.Error(t, err)
	nodeBecomes(t, b, "Unknown")
	require.NoError(t, b.PowerOn(t.Context(), second))
	nodeBecomes(t, b, "True")
	assert.NotEqual(t, before, boot())
}
