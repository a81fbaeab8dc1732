//go:build e2e

package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// uncontained: without oci.conf, slurmstepd passes over --container, whatever it names. The status
// of slurmctld says so.
func uncontained(t *testing.T, c *cluster) {
	for _, image := range []string{"/nosuch", "docker://alpine"} {
		root := c.as(t, "alice", "login", "srun", "-w", "node-0", "--container="+image, "ls", "/usr/sbin/slurmd")
		assert.Contains(t, root, "/usr/sbin/slurmd", image)
	}
	assert.True(t, c.agent(t, sandbox.Slurmctld).Conf.Uncontained)
	assert.Contains(t, c.run(t, sandbox.Slurmctld, "slurmlet", "status"), "there is no oci.conf")
}
