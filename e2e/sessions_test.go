//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// usersShareALoginPod: one user's processes reach what the user may have, together, and the kernel ends or refuses only
// the user's own. Without limits the kernel kills the largest process of the pod, which is somebody else's. The kubelet's
// memory.oom.group is on it.
func usersShareALoginPod(t *testing.T, c *cluster) {
	people := []string{"ida", "jan"}
	spec := withUsers(c.Login())
	spec.Memory, spec.OOMGroup = 160<<20, true
	spec.Env["SLURMLET_USER_PROCESSES"] = "20"
	spec.Volumes[len(spec.Volumes)-1].Files = usersFiles(people...)
	c.replace(t, spec)
	defer c.replace(t, c.Login())
	keys := map[string]sandbox.File{sandbox.User: {Data: c.AuthorizedKey}}
	for _, name := range people {
		keys[name] = sandbox.File{Data: c.AuthorizedKey}
	}
	require.NoError(t, c.SetFiles(t.Context(), "login", sandbox.AuthorizedKeys, keys))
	began := c.agent(t, "login").Began
	in := func(name string) (client *ssh.Client) {
		until(t, name+" may log in", func() (bool, string) {
			var err error
			client, err = dialAs(t, c, name, "login", userKey(t, c))
			return err == nil, fmt.Sprint(err)
		})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	ida, jan := in("ida"), in("jan")

	work, err := ida.NewSession()
	require.NoError(t, err)
	said, err := work.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, work.Start(`exec perl -e '$| = 1; vec($x, 50 << 20, 8) = 1; print "there\n"; sleep 1000'`))
	_, err = io.ReadFull(said, make([]byte, len("there\n")))
	require.NoError(t, err, "the largest process of the pod")
	pid := strings.TrimSpace(runSSH(t, ida, "pgrep -u ida -x perl"))

	terminal, err := jan.NewSession()
	require.NoError(t, err)
	require.NoError(t, terminal.RequestPty("dumb", 24, 80, nil))
	reads, err := terminal.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, terminal.Start("exec sleep 1000"))
	until(t, "the session is in its user's cgroup", func() (bool, string) {
		saw := runSSH(t, jan, "cat /proc/self/cgroup")
		return saw == "0::/sessions/2001\n", saw
	})
	greedy, err := jan.NewSession()
	require.NoError(t, err)
	out, err := greedy.CombinedOutput(`
		for i in 1 2 3 4; do perl -e 'vec($x, 30 << 20, 8) = 1; sleep 1000' & all="$all $!"; done
		wait -n; echo $?; kill $all`)
	assert.Contains(t, string(out), "137", "%v: one has been killed", err)
	awaitText(t, reads, "the kernel has killed one of your processes: "+
		"on this login node each user may have 80 MiB of memory and 20 processes")

	many, err := jan.NewSession()
	require.NoError(t, err)
	out, err = many.CombinedOutput(`perl -e '$| = 1;
		for (1..40) { my $p = fork; defined $p or print("refused\n"), last; $p or sleep(1000), exit }
		kill 15, -$$'`)
	assert.Contains(t, string(out), "refused", "%v", err)
	awaitText(t, reads, "you cannot start more processes")

	assert.Equal(t, pid, strings.TrimSpace(runSSH(t, ida, "pgrep -u ida -x perl")), "her process lives")
	now := c.agent(t, "login")
	assert.Equal(t, began, now.Began, "the container lives")
	require.NotNil(t, now.Users)
	require.Len(t, now.Users.Over, 1)
	assert.Equal(t, "jan", now.Users.Over[0].User)
	assert.Contains(t, c.run(t, "login", "slurmlet", "status"), "each may have 80 MiB of memory and 20 processes")
}

// awaitText reads until a text has come.
func awaitText(t *testing.T, from io.Reader, text string) {
	t.Helper()
	read := make(chan error, 1)
	go func() {
		var all []byte
		buffer := make([]byte, 4096)
		for !bytes.Contains(all, []byte(text)) {
			n, err := from.Read(buffer)
			if all = append(all, buffer[:n]...); err != nil {
				read <- fmt.Errorf("%w after %q", err, all)
				return
			}
		}
		read <- nil
	}()
	select {
	case err := <-read:
		require.NoError(t, err)
	case <-time.After(limit):
		require.Fail(t, "the terminal does not say: "+text)
	}
}
