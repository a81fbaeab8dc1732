//go:build e2e

package kube

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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

// images: each starts as the user that it declares, and its agent with it.
func images(t *testing.T, c *cluster) {
	for _, one := range []struct{ role, state, saw string }{
		{"slurmctld", ".user.linux.uid", "64030"},
		{"slurmdbd", ".user.linux.uid", "64030"},
		{"slurmrestd", ".user.linux.uid", "820"},
		{"slurmd", ".state.waiting.message", "image will run as root"},
		{"login", ".state.waiting.message", "image will run as root"},
	} {
		t.Run(one.role, func(t *testing.T) {
			pod := "pod/image-" + one.role
			assert.NoError(t, c.Apply(t.Context(), fmt.Sprintf(imagePod, one.role, c.version)))
			defer c.kubectl(t, "delete", "--wait", pod)
			until(t, "it is "+one.saw, func() (bool, string) {
				saw := c.field(t, pod, ".status.containerStatuses[0]"+one.state)
				return strings.Contains(saw, one.saw), saw
			})
			said, _ := c.Kubectl(t.Context(), "logs", "image-"+one.role)
			t.Log(said, c.field(t, pod, ".status.containerStatuses[0].state"))
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
