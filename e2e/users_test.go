//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// usersVolume is that of each pod with the chart's users, where libnss-extrausers reads them.
const usersVolume = "users"

// withUsers gives a pod the volume, with nobody in it yet.
func withUsers(spec sandbox.PodSpec) sandbox.PodSpec {
	spec.Volumes = append(spec.Volumes, sandbox.Volume{Name: usersVolume, Path: "/var/lib/extrausers", Projected: true, Mode: 0o755, Files: usersFiles()})
	return spec
}

// usersFiles are as the chart's ConfigMap has them.
func usersFiles(names ...string) map[string]sandbox.File {
	var passwd, group strings.Builder
	for i, name := range names {
		fmt.Fprintf(&passwd, "%s:*:%d:%d::/tmp:/bin/bash\n", name, 2000+i, 2000+i)
		fmt.Fprintf(&group, "%s:*:%d:\n", name, 2000+i)
	}
	fmt.Fprintf(&group, "physics:*:3000:%s\n", strings.Join(names, ","))
	return map[string]sandbox.File{"passwd": {Data: []byte(passwd.String()), Mode: 0o444}, "group": {Data: []byte(group.String()), Mode: 0o444}}
}

// podsWithUsers are those of TestAccounting that know the chart's users.
var podsWithUsers = []string{sandbox.Slurmctld, "node-0", "login", sandbox.Slurmdbd, sandbox.Slurmrestd}

// setUsers delivers the chart's users, and their keys, as the kubelet does.
func (c *cluster) setUsers(t *testing.T, files map[string]sandbox.File, people ...string) {
	t.Helper()
	keys := map[string]sandbox.File{sandbox.User: {Data: c.AuthorizedKey}}
	for _, name := range people {
		keys[name] = sandbox.File{Data: c.AuthorizedKey}
	}
	require.NoError(t, c.SetFiles(t.Context(), "login", sandbox.AuthorizedKeys, keys))
	for _, pod := range podsWithUsers {
		require.NoError(t, c.SetFiles(t.Context(), pod, usersVolume, files))
	}
}

// peopleWithoutDirectory: five people are known in every pod as soon as the kubelet has delivered them. They come in by ssh,
// submit by sbatch and by REST, and are charged. One who has left the list is unknown everywhere.
func peopleWithoutDirectory(t *testing.T, c *cluster) {
	pods := podsWithUsers
	known := func(people ...string) { c.setUsers(t, usersFiles(people...), people...) }
	accounts := func(text string) {
		files := map[string]sandbox.File{accountsFile: {Data: []byte(text)}}
		require.NoError(t, c.SetFiles(t.Context(), sandbox.Slurmctld, accountsVolume, files))
	}
	people := []string{"ida", "jan", "kim", "lea", "max"}
	known(people...)
	accounts("accounts: {lab: {}}\nusers: {" + strings.Join(people, ": lab, ") + ": lab}\n")
	until(t, "all have accounts", func() (bool, string) {
		rows := c.run(t, sandbox.Slurmctld, "sacctmgr", "-n", "-P", "show", "assoc", "account=lab", "format=user")
		return strings.Count(rows, "\n") == len(people)+1, rows
	})
	var ids []string
	for _, name := range people {
		for _, pod := range pods {
			assert.Contains(t, c.run(t, pod, "id", name), "3000(physics)", pod)
		}
		client, err := dialAs(t, c, name, "login", userKey(t, c))
		require.NoError(t, err, name)
		assert.Equal(t, name+"\n", runSSH(t, client, "id -un"))
		ids = append(ids, strings.TrimSpace(runSSH(t, client, "sbatch --parsable --chdir=/tmp --output=/dev/null --wrap id")))
		require.NoError(t, client.Close())
	}
	status, said := submitByREST(t, c.tokenOf(t, people[0], "60"), forward(t, c, "slurmrestd:"+strconv.Itoa(sandbox.RESTPort)))
	require.Equal(t, http.StatusOK, status, said)
	var answer struct {
		JobID int64 `json:"job_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(said), &answer))
	c.accounted(t, append(ids, strconv.FormatInt(answer.JobID, 10))...)
	for i, id := range ids {
		assert.Equal(t, people[i]+"|lab\n", c.run(t, sandbox.Slurmctld, "sacct", "-n", "-X", "-P", "-o", "user,account", "-j", id))
	}

	known(people[:4]...)
	_, err := dialAs(t, c, "max", "login", userKey(t, c))
	require.Error(t, err, "who has left does not come in")
	for _, pod := range pods {
		_, _, code, err := c.Exec(t.Context(), pod, "getent", "passwd", "max")
		require.NoError(t, err)
		assert.NotZero(t, code, pod)
	}
	client, err := dialAs(t, c, "lea", "login", userKey(t, c))
	require.NoError(t, err)
	require.NoError(t, client.Close())

	known()
	accounts("confirm: 6\n" + noAccounts)
	until(t, "nothing is left", func() (bool, string) {
		rows := c.run(t, sandbox.Slurmctld, "sacctmgr", "-n", "-P", "show", "assoc", "account=lab", "format=user")
		return rows == "", rows + fmt.Sprintf("%+v", c.agent(t, sandbox.Slurmctld).Accounts)
	})
}
