//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sessionOverMemory: the kubelet's memory.oom.group is on a login pod with a memory limit. A session that reaches it ends no
// other one.
func sessionOverMemory(t *testing.T, c *cluster) {
	spec := c.Login()
	spec.Memory, spec.OOMGroup = 256<<20, true
	c.replace(t, spec)
	defer c.replace(t, c.Login())
	began := c.agent(t, "login").Began
	other := comeIn(t, c)
	waiting, err := other.NewSession()
	require.NoError(t, err)
	require.NoError(t, waiting.Start("sleep 1000"))
	greedy, err := comeIn(t, c).NewSession()
	require.NoError(t, err)
	out, err := greedy.CombinedOutput(hog(400))
	require.Error(t, err, "%s", out)
	assert.Equal(t, "here\n", runSSH(t, other, "echo here"), "the other session lives")
	until(t, "each session has a cgroup", func() (bool, string) {
		now := c.agent(t, "login")
		cgroup := c.run(t, "login", "sh", "-c", "cat /proc/$(pgrep -x sleep)/cgroup")
		for _, s := range now.Sessions {
			if strings.HasSuffix(strings.TrimSpace(cgroup), fmt.Sprintf("/sessions/%d", s.PID)) {
				return true, ""
			}
		}
		return false, cgroup
	})
	assert.Equal(t, began, c.agent(t, "login").Began, "the container lives")
	assert.NotEmpty(t, c.agent(t, "login").Main)
}
