//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/pod/services"
)

var loginCases = []testCase{
	{"a user comes in by ssh and runs jobs", comesIn, both},
	{"authorized keys and host keys", sshKeys, either},
	{"lines for sshd are live, and a mistake in them is refused", sshdConfig, either},
	{"helpers and sackd killed: sessions go on", helpersKilled, either},
	{"users reach neither the agent's sockets nor keys", usersReachNothing, either},
	{"a login pod is deleted with a session open", loginEnds, either},
	{"a user has 900 silent connections in a login pod", crowdedLogin, both},
	{"a login pod needs few capabilities", fewCapabilities, either},
}

// dialSSH connects to the login pod from outside, as alice.
func dialSSH(t *testing.T, c *cluster, key ssh.Signer) (*ssh.Client, error) {
	t.Helper()
	return dialAs(t, c, sandbox.User, "login", key)
}

// dialAs connects to a pod. The error has what sshd tells the user.
func dialAs(t *testing.T, c *cluster, user, pod string, key ssh.Signer) (*ssh.Client, error) {
	t.Helper()
	conn, err := c.Dial(t.Context(), pod+":22")
	if err != nil {
		return nil, err
	}
	return remote.Login(conn, user, key)
}

func userKey(t *testing.T, c *cluster) ssh.Signer {
	t.Helper()
	key, err := remote.ReadKey(c.UserKey())
	require.NoError(t, err)
	return key
}

// comeIn is a connection that ends with the test.
func comeIn(t *testing.T, c *cluster) *ssh.Client {
	t.Helper()
	var client *ssh.Client
	until(t, "alice may log in", func() (bool, string) {
		var err error
		client, err = dialSSH(t, c, userKey(t, c))
		return err == nil, fmt.Sprint(err)
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func runSSH(t *testing.T, client *ssh.Client, command string) string {
	t.Helper()
	session, err := client.NewSession()
	require.NoError(t, err)
	defer session.Close()
	out, err := session.CombinedOutput(command)
	require.NoError(t, err, "%s: %s", command, out)
	return string(out)
}

func comesIn(t *testing.T, c *cluster) {
	client := comeIn(t, c)
	assert.Equal(t, "alice\n", runSSH(t, client, "id -un"))
	assert.Equal(t, "node-1\n", runSSH(t, client, "srun -w node-1 hostname"))
	id := strings.TrimSpace(runSSH(t, client, "sbatch --parsable --output=/dev/null --wrap true"))
	c.waitJob(t, id, "COMPLETED")
	assert.Empty(t, strings.TrimSpace(runSSH(t, client, "env | grep -E 'SLURMLET|NOTIFY' || true")))

	sessions := c.agent(t, "login").Sessions
	require.Len(t, sessions, 1)
	assert.Equal(t, sandbox.User, sessions[0].User)
	assert.Equal(t, "10.88.0.1", sessions[0].From)
	assert.WithinDuration(t, time.Now(), sessions[0].Since, time.Minute)
	assert.Contains(t, c.run(t, "login", "slurmlet", "status"), "alice from 10.88.0.1 since")
	counts := func(sessions int) {
		line := fmt.Sprintf("slurmlet_sessions %d", sessions)
		until(t, line, func() (bool, string) { return slices.Contains(c.metrics(t, "login"), line), "another number" })
	}
	counts(1)
	require.NoError(t, client.Close())
	until(t, "the session is over", func() (bool, string) {
		now := c.agent(t, "login").Sessions
		return len(now) == 0, fmt.Sprint(now)
	})
	counts(0)
}

// sshKeys: a key counts as soon as the volume has it, and no longer; the host's
// stay the same when the container does not.
func sshKeys(t *testing.T, c *cluster) {
	hostKey := func() string { return c.run(t, "login", "ssh-keyscan", "-t", "ed25519", "login") }
	before := hostKey()
	require.NotEmpty(t, before)
	other := t.TempDir() + "/key"
	require.NoError(t, remote.MakeKey(other))
	key, err := remote.ReadKey(other)
	require.NoError(t, err)
	_, err = dialSSH(t, c, key)
	require.ErrorContains(t, err, "unable to authenticate")

	setKeys := func(text []byte) {
		require.NoError(t, c.SetFiles(t.Context(), "login", sandbox.AuthorizedKeys, map[string]sandbox.File{sandbox.User: {Data: text}}))
	}
	setKeys(ssh.MarshalAuthorizedKey(key.PublicKey()))
	until(t, "the new key counts", func() (bool, string) {
		client, err := dialSSH(t, c, key)
		if err == nil {
			_ = client.Close()
		}
		return err == nil, fmt.Sprint(err)
	})
	_, err = dialSSH(t, c, userKey(t, c))
	require.ErrorContains(t, err, "unable to authenticate", "the old key counts no more")
	setKeys(c.AuthorizedKey)

	require.NoError(t, c.Restart(t.Context(), "login", grace))
	c.waitReady(t, "login")
	assert.Equal(t, before, hostKey())
	comeIn(t, c)
}

// helpersKilled: sssd, sshd and sackd come back each time, with a growing pause,
// and a session is none the worse for it.
func helpersKilled(t *testing.T, c *cluster) {
	spec := c.Login()
	spec.Volumes = append(spec.Volumes, sssdConf)
	c.replace(t, spec)
	client := comeIn(t, c)
	deaths := 3
	if withTime() {
		deaths = 10
	}
	for _, name := range []string{"sssd", "sshd"} {
		c.helperKilled(t, name, deaths)
		require.Equal(t, "alice\n", runSSH(t, client, "id -un"))
	}

	for range deaths {
		before := c.agent(t, "login")
		require.NotNil(t, before.Main, "no sackd: %s, %s", before.State, before.Reason)
		c.run(t, "login", "kill", "-9", strconv.Itoa(before.Main.PID))
		until(t, "sackd is back", func() (bool, string) {
			s := c.agent(t, "login")
			return s.State == supervisor.Ready && s.Main != nil && s.Main.PID != before.Main.PID, string(s.State) + " " + s.Reason
		})
		assert.Equal(t, before.Services, c.agent(t, "login").Services, "they are not touched")
	}
	assert.Contains(t, runSSH(t, client, "srun -w node-1 hostname"), "node-1")
	c.reaps(t, "login")
	require.NoError(t, client.Close())
	c.replace(t, c.Login())
}

// helperKilled kills a helper of the login pod's as often as that.
func (c *cluster) helperKilled(t *testing.T, name string, deaths int) {
	t.Helper()
	first := c.helper(t, name)
	for range deaths {
		c.run(t, "login", "kill", "-9", strconv.Itoa(c.helper(t, name).PID))
		until(t, name+" is back", func() (bool, string) {
			s := c.helper(t, name)
			return s.State == services.Running && s.PID != first.PID, fmt.Sprint(s)
		})
		first = c.helper(t, name)
	}
	assert.GreaterOrEqual(t, first.Restarts, deaths)
	var backoff []time.Time
	for _, line := range c.lines(t, "login", agent.Source) {
		if line["service"] == name && line["state"] == string(services.Backoff) {
			at, err := time.Parse(time.RFC3339, line["time"].(string))
			require.NoError(t, err)
			backoff = append(backoff, at)
		}
	}
	last := backoff[len(backoff)-deaths:]
	assert.Greater(t, last[deaths-1].Sub(last[deaths-2]), 100*time.Millisecond<<(deaths-2), "the pause doubles")
}

// helper is one of the login pod's, as its agent tells of it.
func (c *cluster) helper(t *testing.T, name string) services.Status {
	t.Helper()
	s := c.agent(t, "login")
	i := slices.IndexFunc(s.Services, func(s services.Status) bool { return s.Name == name })
	require.NotEqual(t, -1, i, "no %s: %s, %s", name, s.State, s.Reason)
	return s.Services[i]
}

// usersReachNothing: as another user, and as a job's, in every pod with an agent.
func usersReachNothing(t *testing.T, c *cluster) {
	for _, pod := range []string{"login", "node-0", sandbox.Slurmctld} {
		for _, user := range []string{sandbox.User, "nobody"} {
			assert.Empty(t, c.as(t, user, pod, "sh", "-c", lookForSecrets), "%s in %s", user, pod)
		}
	}
	assert.Empty(t, c.as(t, sandbox.User, "login", "srun", "-w", "node-0", "sh", "-c", lookForSecrets), "a job")
	id := c.submit(t, lookForSecrets, "-w", "node-0")
	c.waitJob(t, id, "COMPLETED")
	assert.Empty(t, c.run(t, "login", "cat", sandbox.Workdir+"/"+id+".out"), "a batch job")
	roots := c.run(t, "login", "sh", "-c", lookForSecrets)
	for _, can := range []string{"can read /run/slurmlet/keys/slurm.key", "can speak to the notify socket", "has the status from the socket"} {
		assert.Contains(t, roots, can, "the way is right: root comes through")
	}
}

// lookForSecrets says what a user can do with the agent's sockets and keys that
// only the agent and the daemons may. The message to the notify socket is a
// datagram, so that whoever may connect may speak.
const lookForSecrets = `for f in /run/slurmlet/agent.sock /run/slurmlet/notify.sock; do
  test -w $f && echo can write $f; done
for f in /etc/slurm/*.key /etc/slurm/slurmdbd.conf /run/slurmlet/keys/* /run/slurmlet/keys/slurm.key /run/slurmlet/slurmdbd/* /run/slurmlet/slurmdbd/slurmdbd.conf \
  /run/slurmlet/ssh_host_keys/ssh_host_ed25519_key /var/lib/slurmlet/ssh/ssh_host_ed25519_key /proc/1/environ; do
  head -c1 $f >/dev/null 2>&1 && echo can read $f; done
slurmlet status 2>&1 | grep -q 'permission denied' || echo has the status from the socket
slurmlet drain 2>&1 | grep -q 'permission denied' || echo may drain
perl -e 'use Socket; socket(S, AF_UNIX, SOCK_DGRAM, 0) or die; send(S, "STOPPING=1\n", 0, sockaddr_un("/run/slurmlet/notify.sock")) and print "can speak to the notify socket\n"'
true`

// loginEnds: nobody new comes in, who is there is told and has time.
func loginEnds(t *testing.T, c *cluster) {
	client := comeIn(t, c)
	session, err := client.NewSession()
	require.NoError(t, err)
	require.NoError(t, session.RequestPty("xterm", 24, 80, nil))
	var screen safeBuffer
	session.Stdout = &screen
	input, err := session.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, session.Start("cat"))
	_, err = input.Write([]byte("here\n"))
	require.NoError(t, err)
	until(t, "the session stands", func() (bool, string) { return strings.Contains(screen.String(), "here"), screen.String() })

	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- c.Restart(t.Context(), "login", grace) }()
	until(t, "the session is told", func() (bool, string) {
		return strings.Contains(screen.String(), "this login node is being stopped"), screen.String()
	})
	assert.Less(t, time.Since(began), 20*time.Second, "before its time is over")
	until(t, "the port is closed", func() (bool, string) {
		_, err := dialSSH(t, c, userKey(t, c))
		return err != nil, "alice may log in"
	})
	_, err = input.Write([]byte("still here\n"))
	require.NoError(t, err)
	until(t, "the session goes on", func() (bool, string) { return strings.Contains(screen.String(), "still here"), screen.String() })
	status := c.agent(t, "login")
	assert.Equal(t, supervisor.Stopping, status.State)
	assert.Equal(t, "waiting for sessions to end", status.Doing)
	assert.Len(t, status.Sessions, 1)
	assert.Contains(t, c.as(t, sandbox.User, "login", "scontrol", "ping"), "UP", "sackd lives")

	require.Error(t, session.Wait())
	took := time.Since(began)
	assert.Greater(t, took, 20*time.Second, "a session has its time")
	require.NoError(t, <-ended)
	assert.Equal(t, "Exited", lastState(t, c, "login"), "before SIGKILL")
	c.waitReady(t, "login")

	// Without a session there is nothing to wait for.
	began = time.Now()
	require.NoError(t, c.Restart(t.Context(), "login", grace))
	assert.Less(t, time.Since(began), 20*time.Second, "before a session's time is over")
	c.waitReady(t, "login")
}

// fewCapabilities: those that the documentation names.
func fewCapabilities(t *testing.T, c *cluster) {
	spec := c.Login()
	for _, name := range []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID", "SYS_CHROOT", "AUDIT_WRITE"} {
		spec.Capabilities = append(spec.Capabilities, "CAP_"+name)
	}
	c.replace(t, spec)
	client := comeIn(t, c)
	assert.Equal(t, "node-0\n", runSSH(t, client, "srun -w node-0 hostname"))
	require.NoError(t, client.Close())
	c.replace(t, c.Login())
}
