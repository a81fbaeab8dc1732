//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
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
	eachVersion(t, bed{name: "dbd", clusters: 2, noLimits: true, start: upWithAccounting}, slices.Concat([]testCase{
		{"sacct tells of a user's jobs", sacctTells, either},
		{"shares are told as sshare prints them", sharesAreTold, either},
		{"the database is away under load", databaseAway, either},
		{"slurmdbd is deleted and comes back", slurmdbdDeleted, either},
		{"a wrong password is told, and mended while the container runs", wrongPassword, either},
		{"users read no key of slurmdbd's", dbdKeys, either},
		{"which Slurm each daemon is, and what is known against it", versionsKnown, both},
		{"slurmrestd judges tokens", tokensJudged, both},
		{"programs renew their tokens", programsTokens, either},
		{"slurm-client's own specs against slurmrestd", slurmClientsSpecs, either},
		{"a user whom slurmctld does not know submits by slurmrestd", userUnknown, both},
		{"an edit that enforces associations takes no job its begin", associationsEnforced, either},
		{"kubectl slurm says why a job waits, and how that ends", whyJobsWait, either},
		{"kubectl slurm asks accounting for jobs that slurmctld has forgotten", forgottenJobs, either},
		{"slurmlet accounts brings slurmdbd into step with a file", accountsApplied, either},
		{"slurmctld's agent applies a file of accounts", accountsOfTheAgent, both},
		{"people without a directory log in, submit and are charged", peopleWithoutDirectory, both},
		{"the jobs and sessions of those end who leave the list of users", leaversOfTheList, both},
		{"a conversion of the database outlives edits", conversionOutlivesEdits, only2411},
		{"a conversion of the database outlives SIGTERM", conversionOutlivesSIGTERM, only2411},
		{"a conversion of the database needs leave", conversionNeedsLeave, only2411},
		{"a dump of the database is kept before its conversion, and brings it back", conversionKeepsDump, only2411},
		{"slurmdbd cannot use its database", databaseRefused, either},
	}, inTime([]testCase{
		{"the cluster's key is rotated as jobs run", keyRotated, both},
	})))
}

// upWithAccounting is up with a database, slurmdbd and slurmrestd.
func upWithAccounting(t *testing.T, c *cluster) {
	c.Cluster = c.Accounting()
	c.SlurmConf += "PartitionName=many Nodes=ALL OverSubscribe=FORCE:50\n" // more jobs at once than the machine has CPUs
	slurmctld := withUsers(withAccounts(c.Slurmctld()))
	slurmctld.Env["SLURMLET_METRICS_USERS"], slurmctld.Env["SLURMLET_CLUSTER_INTERVAL"] = "100", "1s"
	require.NoError(t, c.CreateAll(t.Context(), slurmctld, withUsers(c.Node(0)), withUsers(c.Login()), withUsers(c.REST())))
	until(t, "slurmctld's agent says that slurmdbd is missing", func() (bool, string) {
		reason := c.agent(t, sandbox.Slurmctld).Reason
		return strings.Contains(reason, "slurmctld: "), reason
	})
	require.NoError(t, c.CreateAll(t.Context(), c.Database(), withUsers(c.Slurmdbd())))
	c.waitReady(t, sandbox.Slurmdbd, sandbox.Slurmctld, "node-0", "login", sandbox.Slurmrestd)
}

// accounted waits until the database has the jobs as COMPLETED, and each of them only once.
func (c *cluster) accounted(t *testing.T, ids ...string) {
	t.Helper()
	until(t, fmt.Sprintf("jobs %v are accounted for", ids), func() (bool, string) {
		stdout, stderr, _, err := c.ExecAs(t.Context(), "login", sandbox.How{User: sandbox.User}, "sacct", "-n", "-X", "-P", "-o", "state,restarts", "-j", strings.Join(ids, ","))
		require.NoError(t, err)
		return stdout == strings.Repeat("COMPLETED|0\n", len(ids)), stdout + stderr
	})
}

// sharesAreTold: slurmctld's agent tells each association's shares and usage.
func sharesAreTold(t *testing.T, c *cluster) {
	until(t, "the metrics are sshare's", func() (bool, string) {
		out := c.run(t, sandbox.Slurmctld, "sshare", "--all", "--noheader", "--parsable2", "--format=Account,User,NormShares,RawUsage")
		numbers := c.numbers(t, sandbox.Slurmctld)
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
	if last := c.agent(t, sandbox.Slurmctld).LastError; last != nil { // on a loaded machine, a command may have been refused
		assert.Contains(t, last.Text, "Protocol authentication error", "what slurmctld has waited for is there")
	}
	client := comeIn(t, c)
	runSSH(t, client, "srun true")
	id := strings.TrimSpace(runSSH(t, client, "sbatch --parsable --output=/dev/null --wrap true"))
	c.accounted(t, id)
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
	assert.Equal(t, supervisor.Ready, c.agent(t, sandbox.Slurmctld).State, "slurmctld goes on")
	require.NoError(t, c.Create(t.Context(), c.Database()))
	c.accounted(t, ids...)
	until(t, "nothing is missing any more", func() (bool, string) {
		s := c.agent(t, sandbox.Slurmdbd)
		return s.State == supervisor.Ready && s.Reason == "", string(s.State) + " " + s.Reason
	})
	assert.LessOrEqual(t, c.agent(t, sandbox.Slurmdbd).Restarts-before.Restarts, 1, "no crash loop")
}

func slurmdbdDeleted(t *testing.T, c *cluster) {
	require.NoError(t, c.Delete(t.Context(), sandbox.Slurmdbd, grace))
	ids := load(t, c, 5*time.Second)
	require.NoError(t, c.Restart(t.Context(), sandbox.Slurmctld, grace))
	c.waitReady(t, sandbox.Slurmctld) // it has its state, and does not wait
	require.NoError(t, c.Create(t.Context(), withUsers(c.Slurmdbd())))
	c.waitReady(t, sandbox.Slurmdbd)
	c.accounted(t, ids...)
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

// tokensJudged: slurmrestd lets in who has a good token, as the user whom it names, and nobody else. The job that a
// token submits is charged to that user.
func tokensJudged(t *testing.T, c *cluster) {
	good, server := c.token(t, "60"), forward(t, c, "slurmrestd:"+strconv.Itoa(sandbox.RESTPort))
	status, said := submitByREST(t, good, server)
	require.Equal(t, http.StatusOK, status, said)
	var answer struct {
		JobID int64 `json:"job_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(said), &answer))
	c.accounted(t, strconv.FormatInt(answer.JobID, 10))

	short := c.token(t, "1")
	<-time.After(2 * time.Second) // what it says of itself
	for name, token := range map[string]string{
		"bad": good[:len(good)-2] + "xx", "expired": short, "foreign": foreignToken(t), "none": "x",
	} {
		status, said := submitByREST(t, token, server)
		assert.NotEqual(t, http.StatusOK, status, name)
		assert.Regexp(t, "(?i)unauthorized|authentication|protocol", said, name)
	}
	assert.Equal(t, "daemon\n", c.run(t, sandbox.Slurmrestd, "stat", "-c", "%U", "/proc/"+strconv.Itoa(c.agent(t, sandbox.Slurmrestd).Main.PID)))
}

// submitByREST has slurmrestd submit a job that does nothing, and returns its answer.
func submitByREST(t *testing.T, token, server string) (status int, said string) {
	t.Helper()
	const job = `{"job": {"script": "#!/bin/sh\ntrue\n", "current_working_directory": "/tmp", "environment": ["PATH=/usr/bin:/bin"]}}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+"/slurm/v0.0.42/job/submit", strings.NewReader(job))
	require.NoError(t, err)
	request.Header.Set("X-SLURM-USER-TOKEN", token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

// token is one of alice's that is good for that many seconds.
func (c *cluster) token(t *testing.T, seconds string) string {
	t.Helper()
	return c.tokenOf(t, sandbox.User, seconds)
}

func (c *cluster) tokenOf(t *testing.T, user, seconds string) string {
	t.Helper()
	_, token, found := strings.Cut(strings.TrimSpace(c.run(t, sandbox.Slurmctld, "scontrol", "token", "username="+user, "lifespan="+seconds)), "=")
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
