//go:build e2e

package e2e

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/pod/services"
)

// sssdConf has the images' own sssd answer for users of a directory that is away. sssd wants it to be root's alone, which
// no file of a Secret is.
var sssdConf = sandbox.Volume{Name: "sssd-conf", Path: "/etc/sssd", Projected: true, Files: map[string]sandbox.File{"sssd.conf": {Mode: 0o644, Data: []byte(`[sssd]
services = nss, pam, ssh
domains = away
[domain/away]
id_provider = ldap
auth_provider = none
ldap_uri = ldaps://127.0.0.1:1
ldap_search_base = dc=example
`)}}}

// sssdOnANode: it runs beside slurmd and comes back when it dies, a job runs on, and
// the pod ends as it does without.
func sssdOnANode(t *testing.T, c *cluster) {
	const node = "node-2"
	spec := c.Node(2)
	spec.Restart = "Never"
	spec.Volumes = append(spec.Volumes, sssdConf)
	require.NoError(t, c.Create(t.Context(), spec))
	c.waitReady(t, node)
	sssd := func(other int) (pid int) {
		t.Helper()
		until(t, "sssd runs on the node", func() (bool, string) {
			for _, s := range c.agent(t, node).Services {
				pid = s.PID
				return s.Name == "sssd" && s.State == services.Running && pid != other, string(s.State) + " " + s.Reason
			}
			return false, "there is no such service"
		})
		return pid
	}
	first := sssd(0)
	id := c.submit(t, waits, "-w", node, "--no-requeue")
	c.waitJob(t, id, "RUNNING")
	c.run(t, node, "kill", "-9", strconv.Itoa(first))
	sssd(first)
	c.let(t, id)
	c.waitJob(t, id, "COMPLETED")
	last, err := c.End(t.Context(), node, grace)
	require.NoError(t, err)
	assert.Equal(t, agent.ExitOK, last.ExitCode)
	assert.Nil(t, c.record(t, node))
}
