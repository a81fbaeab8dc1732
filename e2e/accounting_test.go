//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

func TestAccounting(t *testing.T) {
	eachVersion(t, bed{name: "dbd", clusters: 1, noLimits: true, start: upWithAccounting}, slices.Concat([]testCase{
		{"sacct tells of a user's jobs", sacctTells, both},
		{"shares are told as sshare prints them", sharesAreTold, both},
		{"the database is away under load", databaseAway, both},
		{"slurmdbd is deleted and comes back", slurmdbdDeleted, both},
		{"a wrong password is told, and mended while the container runs", wrongPassword, either},
		{"users read no key of slurmdbd's", dbdKeys, either},
		{"a client that is not ours drives slurmrestd", restDriven, both},
		{"a user whom slurmctld does not know submits by slurmrestd", userUnknown, both},
		{"an edit that enforces associations takes no job its begin", associationsEnforced, both},
		{"a conversion of the database outlives edits", conversionOutlivesEdits, only2411},
		{"a conversion of the database outlives SIGTERM", conversionOutlivesSIGTERM, only2411},
		{"slurmdbd cannot use its database", databaseRefused, both},
	}, inTime([]testCase{
		{"the cluster's key is rotated as jobs run", keyRotated, both},
	})))
}

// upWithAccounting is up with a database, slurmdbd and slurmrestd.
func upWithAccounting(t *testing.T, c *cluster) {
	c.Cluster = c.Accounting()
	c.SlurmConf += "PartitionName=many Nodes=ALL OverSubscribe=FORCE:50\n" // more jobs at once than the machine has CPUs
	controller := c.Controller()
	controller.Env["SLURMLET_METRICS_USERS"], controller.Env["SLURMLET_CLUSTER_INTERVAL"] = "100", "1s"
	require.NoError(t, c.CreateAll(t.Context(), controller, c.Node(0), c.Login(), c.REST()))
	until(t, "slurmctld's agent says that slurmdbd is missing", func() (bool, string) {
		reason := c.agent(t, sandbox.Controller).Reason
		return strings.Contains(reason, "slurmctld: "), reason
	})
	require.NoError(t, c.CreateAll(t.Context(), c.Database(), c.Slurmdbd()))
	c.waitReady(t, sandbox.Slurmdbd, sandbox.Controller, "node-0", "login", sandbox.Slurmrestd)
}

// accounted waits until the database has the jobs in a final state, and each of
// them only once.
func (c *cluster) accounted(t *testing.T, state string, ids ...string) {
	t.Helper()
	until(t, fmt.Sprintf("jobs %v are accounted for as %s", ids, state), func() (bool, string) {
		stdout, stderr, _, err := c.ExecAs(t.Context(), "login", sandbox.How{User: sandbox.User}, "sacct", "-n", "-X", "-P", "-o", "state,restarts", "-j", strings.Join(ids, ","))
		require.NoError(t, err)
		return stdout == strings.Repeat(state+"|0\n", len(ids)), stdout + stderr
	})
}

// sharesAreTold: slurmctld's agent tells each association's shares and usage.
func sharesAreTold(t *testing.T, c *cluster) {
	until(t, "the metrics are sshare's", func() (bool, string) {
		out := c.run(t, sandbox.Controller, "sshare", "--all", "--noheader", "--parsable2", "--format=Account,User,NormShares,RawUsage")
		numbers := c.numbers(t, sandbox.Controller)
		rows := strings.Split(strings.TrimSpace(out), "\n")
		for _, row := range rows {
			column := strings.Split(row, "|")
			labels := fmt.Sprintf("{account=%q,user=%q}", strings.TrimSpace(column[0]), column[1])
			for i, name := range []string{"shares_ratio", "usage_cpu_seconds"} {
				want, err := strconv.ParseFloat(column[2+i], 64)
				require.NoError(t, err, row)
				if have, told := numbers["slurmlet_cluster_share_"+name+labels]; !told || have != want {
					return false, fmt.Sprint(row, " ", name, " ", have, told)
				}
			}
		}
		return len(rows) > 1, out // the account root and its user
	})
}

func sacctTells(t *testing.T, c *cluster) {
	assert.Nil(t, c.agent(t, sandbox.Controller).LastError, "what slurmctld has waited for is there")
	client := comeIn(t, c)
	runSSH(t, client, "srun true")
	id := strings.TrimSpace(runSSH(t, client, "sbatch --parsable --output=/dev/null --wrap true"))
	c.accounted(t, "COMPLETED", id)
	assert.Contains(t, runSSH(t, client, "sacct -n -X -P -o user,state -j "+id), "alice|COMPLETED")
}

// load submits a job a second for that long and returns their numbers. They run
// beside each other: one after the other, they would take longer than to come.
func load(t *testing.T, c *cluster, d time.Duration) []string {
	t.Helper()
	var ids []string
	for end := time.Now().Add(d); time.Now().Before(end); {
		next := time.After(time.Second)
		ids = append(ids, c.submit(t, "true", "-p", "many", "--mem=10"))
		<-next
	}
	return ids
}

func awayTime() time.Duration {
	if withTime() {
		return time.Minute
	}
	return 8 * time.Second
}

func databaseAway(t *testing.T, c *cluster) {
	before := c.agent(t, sandbox.Slurmdbd)
	require.NoError(t, c.Delete(t.Context(), sandbox.Database, grace))
	ids := load(t, c, awayTime())
	until(t, "slurmdbd's agent says what is missing", func() (bool, string) {
		s := c.agent(t, sandbox.Slurmdbd)
		return strings.Contains(s.Reason, "cannot log in to the database mariadb:3306"), string(s.State) + " " + s.Reason
	})
	assert.Equal(t, supervisor.Ready, c.agent(t, sandbox.Controller).State, "slurmctld goes on")
	require.NoError(t, c.Create(t.Context(), c.Database()))
	c.accounted(t, "COMPLETED", ids...)
	until(t, "nothing is missing any more", func() (bool, string) {
		s := c.agent(t, sandbox.Slurmdbd)
		return s.State == supervisor.Ready && s.Reason == "", string(s.State) + " " + s.Reason
	})
	assert.LessOrEqual(t, c.agent(t, sandbox.Slurmdbd).Restarts-before.Restarts, 1, "no crash loop")
}

func slurmdbdDeleted(t *testing.T, c *cluster) {
	require.NoError(t, c.Delete(t.Context(), sandbox.Slurmdbd, grace))
	ids := load(t, c, 5*time.Second)
	require.NoError(t, c.Restart(t.Context(), sandbox.Controller, grace))
	c.waitReady(t, sandbox.Controller) // it has its state, and does not wait
	require.NoError(t, c.Create(t.Context(), c.Slurmdbd()))
	c.waitReady(t, sandbox.Slurmdbd)
	c.accounted(t, "COMPLETED", ids...)
}

// wrongPassword: an edit of the Secret, and the edit that mends it.
func wrongPassword(t *testing.T, c *cluster) {
	before := c.agent(t, sandbox.Slurmdbd)
	set := func(password string) {
		require.NoError(t, c.SetFiles(t.Context(), sandbox.Slurmdbd, sandbox.DBDConf, c.DBDFiles(password)))
	}
	set("wr0ng")
	until(t, "the reason is in the status", func() (bool, string) {
		s := c.agent(t, sandbox.Slurmdbd)
		return s.State == supervisor.Starting && strings.Contains(s.Reason, "Access denied"), string(s.State) + " " + s.Reason
	})
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		response, err := c.HTTP().Get("http://slurmdbd:" + strconv.Itoa(sandbox.AgentPort) + path)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, want, response.StatusCode, path)
		assert.Equal(t, "Starting\n", string(body), "strangers are not told why")
	}
	assert.Nil(t, c.agent(t, sandbox.Slurmdbd).Main, "no slurmdbd without a database")
	set(sandbox.DatabasePassword)
	c.waitReady(t, sandbox.Slurmdbd)
	assert.Equal(t, before.Restarts, c.agent(t, sandbox.Slurmdbd).Restarts, "no crash loop")
	assert.Zero(t, c.pod(t, sandbox.Slurmdbd).Restarts)
	log, err := c.Logs(t.Context(), sandbox.Slurmdbd)
	require.NoError(t, err)
	assert.NotContains(t, log, "wr0ng")
	assert.NotContains(t, log, "StoragePass=")
}

func dbdKeys(t *testing.T, c *cluster) {
	for _, user := range []string{sandbox.User, "nobody"} {
		assert.Empty(t, c.as(t, user, sandbox.Slurmdbd, "sh", "-c", lookForSecrets), user)
	}
	for _, path := range []string{"slurmdbd/slurmdbd.conf", "keys/slurm.key"} {
		assert.Equal(t, "600 slurm\n", c.run(t, sandbox.Slurmdbd, "stat", "-c", "%a %U", "/run/slurmlet/"+path))
	}
}

// restDriven: e2e/native/rest, with SlinkyProject's client, is a module of its own.
func restDriven(t *testing.T, c *cluster) {
	program := filepath.Join(t.TempDir(), "rest")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "native/rest"
	build.Env = append(os.Environ(), "GOWORK=off")
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)
	server := forward(t, c, "slurmrestd:"+strconv.Itoa(sandbox.RESTPort))
	drive := func(token string) (string, error) {
		cmd := exec.CommandContext(t.Context(), program, server)
		cmd.Env = append(os.Environ(), "SLURM_JWT="+token)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	good := c.token(t, "60")
	out, err := drive(good)
	require.NoError(t, err, out)
	var found struct {
		Nodes                        []string
		Submitted, Listed, Cancelled string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	assert.Equal(t, []string{"node-0"}, found.Nodes)
	assert.Equal(t, sandbox.User, found.Listed)
	c.accounted(t, "COMPLETED", found.Submitted)
	c.accounted(t, "CANCELLED by 1000", found.Cancelled)

	short := c.token(t, "1")
	<-time.After(2 * time.Second) // what it says of itself
	for name, token := range map[string]string{
		"bad": good[:len(good)-2] + "xx", "expired": short, "foreign": foreignToken(t), "none": "x",
	} {
		out, err := drive(token)
		require.Error(t, err, name)
		assert.Regexp(t, "(?i)unauthorized|authentication|protocol", out, name)
	}
	assert.Equal(t, "daemon\n", c.run(t, sandbox.Slurmrestd, "stat", "-c", "%U", "/proc/"+strconv.Itoa(c.agent(t, sandbox.Slurmrestd).Main.PID)))
}

// token is one of alice's that is good for that many seconds.
func (c *cluster) token(t *testing.T, seconds string) string {
	t.Helper()
	_, token, found := strings.Cut(strings.TrimSpace(c.run(t, sandbox.Controller, "scontrol", "token", "username="+sandbox.User, "lifespan="+seconds)), "=")
	require.True(t, found)
	return token
}

// forward listens on this machine for connections to a pod's port.
func forward(t *testing.T, c *cluster, address string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				to, err := c.Dial(context.WithoutCancel(t.Context()), address)
				if err != nil {
					return
				}
				defer to.Close()
				go func() { _, _ = io.Copy(to, conn) }()
				_, _ = io.Copy(conn, to)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}
