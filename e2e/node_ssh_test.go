//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// sshIntoANode: alice comes in where she has a job, what she starts there belongs to the job, whose end ends it, and
// where she has none she stays out, with or without a job elsewhere.
func sshIntoANode(t *testing.T, c *cluster) {
	const node, other = "node-2", "node-3"
	contained := c.Cluster
	contained.SlurmConf += "PrologFlags=Contain\n"
	c.configure(t, contained)
	for i := 2; i < 4; i++ {
		spec := c.Node(i)
		spec.Env["SLURMLET_SSH"] = "yes"
		spec.Volumes = append(spec.Volumes, c.AuthorizedKeysVolume())
		require.NoError(t, c.Create(t.Context(), spec))
		defer c.removeNode(t, spec.Name)
	}
	c.waitReady(t, node, other)
	defer c.configure(t, c.Cluster)

	key := userKey(t, c)
	for _, pod := range []string{node, other} {
		until(t, "sshd answers in "+pod, func() (bool, string) {
			conn, err := c.Dial(t.Context(), pod+":22")
			if err == nil {
				_ = conn.Close()
			}
			return err == nil, fmt.Sprint(err)
		})
	}
	staysOut := func(user, pod, why string) {
		t.Helper()
		client, err := dialAs(t, c, user, pod, key)
		if err == nil {
			_ = client.Close()
		}
		require.ErrorContains(t, err, why, "%s comes into %s", user, pod)
	}
	const jobless = "you have no active jobs on this node"
	staysOut(sandbox.User, node, jobless)

	id := c.submit(t, waits, "-w", node, "--mem=128")
	c.waitJob(t, id, "RUNNING")
	client, err := dialAs(t, c, sandbox.User, node, key)
	require.NoError(t, err)
	defer client.Close()
	assert.Equal(t, "alice "+node+"\n", runSSH(t, client, "echo $(id -un) $(hostname)"))
	own := runSSH(t, client, "cat /proc/self/cgroup")
	assert.Contains(t, own, "/step_extern/", "the session belongs to the job")
	assert.Empty(t, strings.TrimSpace(runSSH(t, client, "env | grep -E 'SLURMLET|NOTIFY' || true")))
	staysOut(sandbox.User, other, jobless)
	staysOut("root", node, "unable to authenticate")

	session, err := client.NewSession()
	require.NoError(t, err)
	require.NoError(t, session.Start("exec sleep 1000"))
	ended := make(chan struct{})
	go func() {
		_ = session.Wait() // it was killed
		close(ended)
	}()
	c.let(t, id)
	c.waitJob(t, id, "COMPLETED")
	select {
	case <-ended:
	case <-time.After(limit):
		t.Fatal("the session outlives the job")
	}
	staysOut(sandbox.User, node, jobless)
}
