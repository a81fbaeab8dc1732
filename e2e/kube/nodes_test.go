//go:build e2e

package kube

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// second is the machine that things happen to.
const second = "kube-2"

func (c *cluster) machineBecomes(t *testing.T, want string) {
	t.Helper()
	until(t, second+"'s Ready is "+want, func() (bool, string) {
		saw := c.field(t, "node/"+second, ".status.conditions[?(@.type=='Ready')].status")
		return saw == want, saw
	})
}

// nodeAgain waits until the machine has registered, whose Node was deleted.
func (c *cluster) nodeAgain(t *testing.T) {
	t.Helper()
	until(t, second+" is a Node again", func() (bool, string) {
		saw, _ := c.Kubectl(t.Context(), "get", "node", second, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}")
		return saw == "True", saw
	})
}

// A kubelet is restarted in a moment; containers and jobs know nothing of it.
func kubeletRestarts(t *testing.T, c *cluster) {
	pods := c.pods(t)
	j := c.running(t, "sleep 20", "-w", c.onSecond(t))
	before, err := c.Exec(t.Context(), second, "pidof", "kubelet", "containerd")
	require.NoError(t, err)
	require.NoError(t, c.Stop(t.Context(), second, "kubelet"))
	_, err = c.Exec(t.Context(), second, "pidof", "kubelet")
	require.Error(t, err)
	require.NoError(t, c.Start(t.Context(), second, "kubelet"))
	after, err := c.Exec(t.Context(), second, "pidof", "kubelet", "containerd")
	require.NoError(t, err)
	assert.NotEqual(t, before, after)
	c.machineBecomes(t, "True")
	j.completes(t, "0")
	c.bothIdle(t)
	assert.Equal(t, pods, c.pods(t))
}

// A machine without a network goes on with its job; slurmctld hears of its end
// when it is back.
func cable(t *testing.T, c *cluster) {
	j := c.running(t, "sleep 20", "-w", c.onSecond(t))
	require.NoError(t, c.Link(t.Context(), second, false))
	c.machineBecomes(t, "Unknown")
	assert.Equal(t, "RUNNING", j.is(t, "JobState"))
	require.NoError(t, c.Link(t.Context(), second, true))
	c.machineBecomes(t, "True")
	j.completes(t, "0")
	c.bothIdle(t)
}

// What a power cut takes, begins again.
func power(t *testing.T, c *cluster) {
	boot := func() string { return c.field(t, "node/"+second, ".status.nodeInfo.bootID") }
	before := boot()
	j := c.running(t, "sleep 20", "-w", c.onSecond(t))
	require.NoError(t, c.PowerOff(t.Context(), second))
	_, err := c.Exec(t.Context(), second, "true")
	require.Error(t, err)
	c.machineBecomes(t, "Unknown")
	c.says(t, "why "+c.onSecond(t), "The machine "+second+" is not Ready", "if it is off for good, delete it")
	require.NoError(t, c.PowerOn(t.Context(), second))
	c.machineBecomes(t, "True")
	assert.NotEqual(t, before, boot())
	j.completes(t, "1")
	c.bothIdle(t)
}
