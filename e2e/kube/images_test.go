//go:build e2e

package kube

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// imagePod is an image by its own ENTRYPOINT and user, with nothing mounted. The
// kubelet starts none that would be root, or does not say by number who it is.
const imagePod = `apiVersion: v1
kind: Pod
metadata: {name: image-%[1]s}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true}
  containers:
  - {name: it, image: "slurmlet/%[1]s:dev-%[2]s", imagePullPolicy: Never, resources: {requests: {cpu: 10m}}}
`

// images: each starts as the user that it declares, and its agent comes as far as
// it can without a key or a configuration.
func images(t *testing.T, c *cluster) {
	for _, one := range []struct{ role, uid, says string }{
		{"slurmctld", "64030", "cannot find the cluster's key"},
		{"slurmdbd", "64030", "cannot find the cluster's key"},
		{"slurmrestd", "820", `"source":"slurmrestd"`},
	} {
		t.Run(one.role, func(t *testing.T) {
			c.start(t, one.role)
			becomes(t, "it is "+one.uid, one.uid, func() string { return c.started(t, one.role, ".user.linux.uid") })
			becomes(t, "its agent says why it cannot go on", one.says, func() string { return c.kubectl(t, "logs", "image-"+one.role) })
			assert.NotContains(t, c.kubectl(t, "logs", "image-"+one.role), "denied")
		})
	}
	for _, role := range []string{"slurmd", "login"} {
		t.Run(role, func(t *testing.T) {
			c.start(t, role)
			becomes(t, "it is root, and refused", "image will run as root", func() string { return c.started(t, role, ".state.waiting.message") })
		})
	}
	t.Run("agent, mounted into a pod of another image", func(t *testing.T) {
		c.apply(t, "injected.yaml")
		defer c.kubectl(t, "delete", "--wait", "pod/injected")
		until(t, "it has run", func() (bool, string) {
			saw := c.field(t, "pod/injected", ".status")
			return c.field(t, "pod/injected", ".status.phase") == "Succeeded", saw
		})
		assert.Regexp(t, `^slurmlet \S+$`, c.kubectl(t, "logs", "injected"))
	})
}

// start starts a role's image for as long as the test lasts.
func (c *cluster) start(t *testing.T, role string) {
	t.Helper()
	require.NoError(t, c.Apply(t.Context(), fmt.Sprintf(imagePod, role, c.version)))
	t.Cleanup(func() { _, _ = c.Kubectl(context.WithoutCancel(t.Context()), "delete", "--wait", "pod/image-"+role) })
}

// started is a field of its container's status.
func (c *cluster) started(t *testing.T, role, field string) string {
	t.Helper()
	return c.field(t, "pod/image-"+role, ".status.containerStatuses[0]"+field)
}

func becomes(t *testing.T, what, want string, look func() string) {
	t.Helper()
	until(t, what, func() (bool, string) {
		saw := look()
		return strings.Contains(saw, want), saw
	})
}
