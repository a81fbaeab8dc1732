//go:build e2e

package e2e

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/kit/keyring"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// keyHolders are the pods with the cluster's key, and their volumes of it.
var keyHolders = map[string]string{sandbox.Slurmctld: "etc", "node-0": "etc", "login": "etc", sandbox.Slurmdbd: sandbox.DBDConf}

// keyRotated: from slurm.key to another one in the three edits that it takes. The
// pods get them in any order, as from kubelets.
func keyRotated(t *testing.T, c *cluster) {
	var ids []string
	for range 20 {
		ids = append(ids, c.submit(t, "sleep 3000; srun true", "-p", "many", "--mem=10", "--no-requeue"))
	}
	for _, id := range ids {
		c.waitJob(t, id, "RUNNING")
	}
	done, came := make(chan struct{}), make(chan []string)
	go func() { came <- submitUntilDone(t, c, done) }()

	next := make([]byte, 1024)
	_, _ = rand.Read(next)
	old, err := keyring.NewKey("old", c.Key, time.Time{})
	require.NoError(t, err)
	young, err := keyring.NewKey("young", next, time.Time{})
	require.NoError(t, err)
	retired, err := keyring.NewKey("old", c.Key, time.Now().Add(time.Hour))
	require.NoError(t, err)

	refusesKey(t, c, next)
	for _, edit := range []struct {
		name   string
		keys   []keyring.Key
		signs  string
		accept []string
	}{
		{"both are known", []keyring.Key{old, young}, "old", []string{"old", "young"}},
		{"the new one signs", []keyring.Key{young, retired}, "young", []string{"young", "old"}},
		{"the old one is gone", []keyring.Key{young}, "young", []string{"young"}},
	} {
		text, err := (&keyring.Ring{Keys: edit.keys}).MarshalJWKS()
		require.NoError(t, err)
		for pod := range keyHolders {
			c.setKeys(t, pod, map[string]sandbox.File{keyring.JWKSFile: {Data: text, Mode: 0o400}})
		}
		for pod := range keyHolders {
			c.waitKeys(t, pod, edit.name, edit.signs, edit.accept)
		}
		c.as(t, sandbox.User, "login", "srun", "-p", "many", "--mem=10", "true")
	}
	close(done)
	late := <-came
	for _, id := range ids {
		job := c.job(t, id)
		assert.Equal(t, []string{"RUNNING", "0"}, []string{job["JobState"], job["Restarts"]}, id)
	}
	c.run(t, "node-0", "pkill", "-f", "^sleep 3000") // they go on to their last step
	t.Logf("%d jobs came during the rotation", len(late))
	c.accounted(t, append(ids, late...)...)
	c.keysAreSecret(t, next)
}

// waitKeys waits until the daemon of a pod runs with keys of these names.
func (c *cluster) waitKeys(t *testing.T, pod, what, signs string, accept []string) {
	t.Helper()
	until(t, pod+" has read that "+what, func() (bool, string) {
		s := c.agent(t, pod)
		var accepts []string
		for _, k := range s.Keys.Accepts {
			accepts = append(accepts, k.Name)
		}
		younger := s.Main != nil && s.Main.Since.Add(50*time.Millisecond).After(s.Keys.Since) // by the ticks in which its start is counted
		return s.State == supervisor.Ready && younger && s.Keys.Signs == signs && slices.Equal(accepts, accept), fmt.Sprintf("%s %s %+v", s.State, s.Reason, s.Keys)
	})
}

// lostInHandOver is what Slurm's commands say, after MessageTimeout, of a request
// that slurmctld had taken when it handed over: any reconfigure may do it.
const lostInHandOver = "Socket timed out on send/recv operation"

// submitUntilDone submits a job a second and returns their numbers.
func submitUntilDone(t *testing.T, c *cluster, done <-chan struct{}) []string {
	var ids []string
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-done:
			tick.Stop()
			return ids
		case <-tick.C:
		}
		stdout, stderr, code, err := c.ExecAs(t.Context(), "login", sandbox.How{User: sandbox.User, Dir: "/tmp"},
			"sbatch", "--parsable", "--output=/dev/null", "--no-requeue", "-p", "many", "--mem=10", "--wrap", "true")
		if strings.Contains(stderr, lostInHandOver) {
			t.Log(stderr)
			continue
		}
		if !assert.NoError(t, err) || !assert.Zero(t, code, "%s", stderr) {
			continue
		}
		ids = append(ids, strings.TrimSpace(stdout))
	}
}

// setKeys leaves the other files of the volume as they are.
func (c *cluster) setKeys(t *testing.T, pod string, keys map[string]sandbox.File) {
	t.Helper()
	files := c.DBDFiles(sandbox.DatabasePassword)
	if pod != sandbox.Slurmdbd {
		for _, v := range map[string]sandbox.PodSpec{sandbox.Slurmctld: c.Slurmctld(), "node-0": c.Node(0), "login": c.Login()}[pod].Volumes {
			if v.Name == keyHolders[pod] {
				files = v.Files
			}
		}
	}
	maps.Copy(files, keys)
	require.NoError(t, c.SetFiles(t.Context(), pod, keyHolders[pod], files))
}

// refusesKey: another slurm.key is taken by nobody, who says what to do instead.
func refusesKey(t *testing.T, c *cluster, key []byte) {
	for pod := range keyHolders {
		before := c.agent(t, pod).Main.PID
		c.setKeys(t, pod, map[string]sandbox.File{keyring.KeyFile: {Data: key, Mode: 0o400}})
		until(t, pod+" refuses the key", func() (bool, string) {
			s := c.agent(t, pod)
			return strings.Contains(s.Keys.Refused, "rotate with slurm.jwks"), fmt.Sprintf("%+v", s.Keys)
		})
		assert.Equal(t, before, c.agent(t, pod).Main.PID, "%s goes on", pod)
		assert.Contains(t, c.run(t, pod, "slurmlet", "status"), "slurmlet jwks", pod)
		c.setKeys(t, pod, nil)
	}
	for pod := range keyHolders {
		until(t, pod+" has its key back", func() (bool, string) { k := c.agent(t, pod).Keys; return k.Refused == "", k.Refused })
	}
	c.as(t, sandbox.User, "login", "srun", "-p", "many", "--mem=10", "true")
}

// keysAreSecret: no word of a key in a log, a status, or an argument.
func (c *cluster) keysAreSecret(t *testing.T, key []byte) {
	for pod := range keyHolders {
		said, err := c.Logs(t.Context(), pod)
		require.NoError(t, err)
		said += c.run(t, pod, "slurmlet", "status", "-o", "json") + c.run(t, pod, "ps", "axww")
		for _, secret := range [][]byte{c.Key, key} {
			young, err := keyring.NewKey("young", secret, time.Time{})
			require.NoError(t, err)
			text, err := (&keyring.Ring{Keys: []keyring.Key{young}}).MarshalJWKS()
			require.NoError(t, err)
			_, base64, found := strings.Cut(string(text), `"k": "`)
			require.True(t, found)
			assert.NotContains(t, said, base64[:16], pod)
		}
	}
}
