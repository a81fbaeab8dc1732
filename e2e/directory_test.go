//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
	"github.com/slurmlet/slurmlet/e2e/testbed/slapd"
)

// slapdPod is a directory of people.
func slapdPod(t *testing.T, people []slapd.Person) (pod sandbox.PodSpec, ca []byte) {
	t.Helper()
	files, err := slapd.Files(people)
	require.NoError(t, err)
	config := sandbox.Volume{Name: "config", Path: slapd.Dir, Files: map[string]sandbox.File{}}
	for name, data := range files {
		config.Files[name] = sandbox.File{Data: data, Mode: 0o600}
	}
	return sandbox.PodSpec{
		Name: slapd.Name, Restart: "Always", Args: []string{"/bin/sh", "-ec", slapd.Run}, Volumes: []sandbox.Volume{config},
	}, files["ca.crt"]
}

// sssdOf is sssd's configuration for the directory.
func sssdOf(ca []byte, more string) sandbox.Volume {
	return sandbox.Volume{Name: "sssd-conf", Path: "/etc/sssd", Projected: true, Files: map[string]sandbox.File{
		"ca.crt": {Mode: 0o400, Data: ca}, "sssd.conf": {Mode: 0o644, Data: []byte(slapd.SSSD(more))},
	}}
}

// directorysUsers: two people whom only a directory knows log in by the keys that it has of them, have homes, and run jobs.
// When the directory is away, who was known before comes in, and her job goes on.
func directorysUsers(t *testing.T, c *cluster) {
	file := t.TempDir() + "/key"
	require.NoError(t, remote.MakeKey(file))
	key, err := remote.ReadKey(file)
	require.NoError(t, err)
	public := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
	pod, ca := slapdPod(t, []slapd.Person{{Name: "ada", UID: 20001, Key: public}, {Name: "bea", UID: 20002, Key: public}})
	require.NoError(t, c.Create(t.Context(), pod))
	there := true
	defer func() {
		if there {
			assert.NoError(t, c.Delete(t.Context(), slapd.Name, grace))
		}
	}()
	sssd := sssdOf(ca, "access_provider = permit\n")
	login, node := c.Login(), c.Node(2)
	login.Name = "login-2"
	login.Volumes, node.Volumes = append(login.Volumes, sssd), append(node.Volumes, sssd)
	require.NoError(t, c.CreateAll(t.Context(), login, node))
	defer func() { assert.NoError(t, c.Delete(t.Context(), login.Name, grace)) }()
	defer c.removeNode(t, node.Name)
	c.waitReady(t, login.Name, node.Name)

	var client *ssh.Client
	until(t, "ada may log in", func() (bool, string) {
		client, err = dialAs(t, c, "ada", login.Name, key)
		return err == nil, fmt.Sprint(err)
	})
	defer client.Close()
	assert.Equal(t, "ada 20001 /home/ada\n", runSSH(t, client, "cd; echo $(id -un) $(stat -c %u .) $PWD"))
	id := strings.TrimSpace(runSSH(t, client, "sbatch --parsable --chdir=/shared --output=/shared/%j.out -w "+node.Name+" --wrap 'id -un; "+waits+"'"))
	until(t, "the job runs as ada", func() (bool, string) {
		out, _, _, err := c.Exec(t.Context(), "login", "cat", "/shared/"+id+".out")
		require.NoError(t, err)
		return out == "ada\n", out
	})

	require.NoError(t, c.Delete(t.Context(), slapd.Name, grace))
	there = false
	again, err := dialAs(t, c, "ada", login.Name, key)
	require.NoError(t, err, "sssd knows ada and her key")
	defer again.Close()
	assert.Equal(t, "ada\n", runSSH(t, again, "id -un"))
	_, err = dialAs(t, c, "bea", login.Name, key)
	require.ErrorContains(t, err, "unable to authenticate", "nobody has asked for bea before")
	assert.Equal(t, "ada\n", runSSH(t, client, "id -un"), "the session goes on")
	c.let(t, id)
	c.waitJob(t, id, "COMPLETED")
	assert.Regexp(t, `^ada\n[0-9.]+\n$`, c.run(t, "login", "cat", "/shared/"+id+".out"))
}
