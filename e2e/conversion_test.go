//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// newSlurm is the version that converts the database of 24.11.
const newSlurm = "26.05"

// conversion is a slurmdbd of newSlurm, in a pod of its own, on a copy of the cluster's database.
type conversion struct {
	*cluster
	pod, database, image string
	// upgrade is SLURMLET_UPGRADE, and dumps SLURMLET_DUMP_DIR. A dump would wait for a table that is held.
	upgrade, dumps string
	// records are what Slurm's commands tell of the original.
	records []string
	// main is slurmdbd, and session its connection to the database, which both are others after a restart.
	main, session int
}

// heldUp is how long a conversion is held up: with SLURMLET_E2E_FULL=1 longer than the liveness probe bears.
func heldUp() time.Duration {
	if withTime() {
		return 6 * time.Minute
	}
	return 5 * time.Second
}

// conversionOutlivesEdits: slurmdbd takes the edits of its Secret when it listens.
func conversionOutlivesEdits(t *testing.T, c *cluster) {
	v := begun(t, c, "edited")
	files := v.files("6819")
	conf := files["slurmdbd.conf"]
	conf.Data = append(conf.Data, "DebugLevel=verbose\n"...) // slurmdbd reads it at SIGHUP
	files["slurmdbd.conf"] = conf
	v.edit(t, files)
	v.edit(t, v.files("6829")) // another port takes a new start
	v.isHeldUp(t, supervisor.Starting, "; an edit waits for that")
	v.release(t)
	c.waitReady(t, v.pod)
	until(t, "slurmdbd has the port of the edit", func() (bool, string) {
		s := c.agent(t, v.pod)
		out, _, code, err := c.Exec(t.Context(), v.pod, "sh", "-c", "ss -ltn || cat /proc/net/tcp")
		require.NoError(t, err)
		return s.State == supervisor.Ready && s.Main != nil && s.Main.PID != v.main && (strings.Contains(out, ":6829") || strings.Contains(out, ":1AAD")) && code == 0, out
	})
	assert.Zero(t, c.pod(t, v.pod).Restarts)
	v.hasAll(t, "6829")
	last, err := c.End(t.Context(), v.pod, grace)
	require.NoError(t, err)
	assert.Zero(t, last.ExitCode)
}

// conversionOutlivesSIGTERM: a pod that is deleted waits until its slurmdbd listens.
func conversionOutlivesSIGTERM(t *testing.T, c *cluster) {
	v := begun(t, c, "deleted")
	v.edit(t, v.files("6829"))
	ended := make(chan sandbox.PodStatus, 1)
	go func() {
		last, err := c.End(t.Context(), v.pod, conversionGrace)
		assert.NoError(t, err)
		ended <- last
	}()
	until(t, "SIGTERM has come", func() (bool, string) {
		log, err := v.Logs(t.Context(), v.pod)
		require.NoError(t, err, "SIGTERM has ended the conversion")
		return strings.Contains(log, `"state":"Stopping"`), ""
	})
	v.isHeldUp(t, supervisor.Stopping, "SIGTERM received; ")
	v.release(t)
	select {
	case last := <-ended:
		assert.Zero(t, last.ExitCode, last.Signal)
	case <-time.After(limit):
		require.Fail(t, "slurmdbd has converted its database, and its pod does not end")
	}
	// The last table of a cluster has what newSlurm adds to it.
	require.Equal(t, "1\n", v.sql(t, "SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema='%s' AND "+
		"table_name='sandbox_wckey_usage_month_table' AND index_name='archive_delete'", v.database))
	require.NoError(t, c.Create(t.Context(), v.spec()))
	c.waitReady(t, v.pod)
	v.hasAll(t, "6819")
	require.NoError(t, c.Delete(t.Context(), v.pod, grace))
}

// databaseRefused: a slurmdbd that says that it cannot use its database converts nothing. It takes an edit, and ends.
func databaseRefused(t *testing.T, c *cluster) {
	v := &conversion{cluster: c, pod: "dbd-refused", database: "acct_of_nobody"}
	waits := func() {
		require.NoError(t, c.Create(t.Context(), v.spec()))
		until(t, "slurmdbd waits for its database", func() (bool, string) {
			s := c.agent(t, v.pod)
			return s.State == supervisor.Starting && strings.Contains(s.Reason, "The database must be up"), string(s.State) + " " + s.Reason
		})
	}
	waits()
	main := c.agent(t, v.pod).Main
	v.sql(t, "GRANT ALL ON acct_granted.* TO slurm@'%%'")
	v.database = "acct_granted"
	v.edit(t, v.files("6819"))
	c.waitReady(t, v.pod)
	assert.NotEqual(t, main, c.agent(t, v.pod).Main)
	require.NoError(t, c.Delete(t.Context(), v.pod, grace))

	v.database = "acct_of_nobody"
	waits()
	began := time.Now()
	last, err := c.End(t.Context(), v.pod, conversionGrace)
	require.NoError(t, err)
	assert.Zero(t, last.ExitCode)
	assert.Less(t, time.Since(began), time.Minute)
}

// conversionGrace is what the pod of such a slurmdbd has.
const conversionGrace = time.Hour

// conversionNeedsLeave: a newer slurmdbd changes no table without leave, and an older one does not change them back.
func conversionNeedsLeave(t *testing.T, c *cluster) {
	v := copied(t, c, "leave")
	v.upgrade = "off"
	if !strings.Contains(c.run(t, sandbox.Slurmctld, "scontrol", "-V"), newSlurm) { // whose database is converted already
		v.refused(t, "is of Slurm 24.11 or older, and this is Slurm 26.05, which would convert it for good")
		v.upgrade = "on"
		v.serves(t)
		v.upgrade = "off"
	}
	v.serves(t)
	v.image, v.upgrade = "24.11", "on"
	v.refused(t, "is of Slurm 26.05, and this is Slurm 24.11")
}

// refused has the pod end and say so, without a change of a table.
func (v *conversion) refused(t *testing.T, says string) {
	t.Helper()
	before := v.columns(t)
	spec := v.spec()
	spec.Restart = "Never"
	require.NoError(t, v.Create(t.Context(), spec))
	assert.Equal(t, agent.ExitConfig, v.waitExit(t, v.pod))
	log, err := v.Logs(t.Context(), v.pod)
	require.NoError(t, err)
	assert.Contains(t, log, says)
	assert.Equal(t, before, v.columns(t), "no table has changed")
	require.NoError(t, v.Delete(t.Context(), v.pod, grace))
}

// serves has the pod serve what Slurm's commands said of the original.
func (v *conversion) serves(t *testing.T) {
	t.Helper()
	require.NoError(t, v.Create(t.Context(), v.spec()))
	v.waitReady(t, v.pod)
	v.hasAll(t, "6819")
	require.NoError(t, v.Delete(t.Context(), v.pod, grace))
}

func (v *conversion) columns(t *testing.T) string {
	return v.sql(t, "SELECT table_name, column_name, column_type FROM information_schema.columns WHERE table_schema='%s' ORDER BY 1, 2", v.database)
}

// copied is a copy of the cluster's database, and the pod of a slurmdbd of newSlurm that is to convert it.
func copied(t *testing.T, c *cluster, name string) *conversion {
	v := &conversion{cluster: c, pod: "dbd-" + name, database: "acct_" + name, image: newSlurm, upgrade: "on", dumps: "off"}
	var ids []string
	for _, script := range []string{"true", "srun true"} {
		ids = append(ids, c.submit(t, script))
	}
	c.accounted(t, ids...)
	c.run(t, sandbox.Slurmctld, "sacctmgr", "-i", "add", "account", v.pod, "grpjobs=7")
	c.run(t, sandbox.Slurmctld, "sacctmgr", "-i", "add", "user", "nobody", "account="+v.pod, "maxjobs=3")
	for _, args := range v.questions() {
		v.records = append(v.records, sorted(c.run(t, sandbox.Slurmctld, args...)))
	}
	v.copyDatabase(t)
	c.run(t, sandbox.Slurmctld, "sacctmgr", "-i", "delete", "user", "nobody", "account="+v.pod)
	c.run(t, sandbox.Slurmctld, "sacctmgr", "-i", "delete", "account", v.pod)
	return v
}

// begun has newSlurm convert a copy of the cluster's database, and holds that up.
func begun(t *testing.T, c *cluster, name string) *conversion {
	v := copied(t, c, name)
	go func() { // until it is killed: release
		_, _, _, _ = c.Exec(t.Context(), sandbox.Database, "mariadb", v.database, "-e", "LOCK TABLES sandbox_job_table WRITE; SELECT SLEEP(7200)")
	}()
	until(t, "another session holds the table of jobs", func() (bool, string) {
		id := v.holder(t)
		return id != "", id
	})
	require.NoError(t, c.Create(t.Context(), v.spec()))
	until(t, "slurmdbd waits for the table", func() (bool, string) {
		v.session = v.waiting(t)
		return v.session != 0, ""
	})
	v.main = c.agent(t, v.pod).Main.PID
	return v
}

// sorted has lines in one order: of two runs of a job within a second, sacct says first what the database says first.
func sorted(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
}

// questions are Slurm's commands that tell the records, those of all runs of a job. sacct leaves out a run that is not
// eligible yet: a job that was requeued and cancelled has one of two minutes later.
func (v *conversion) questions() [][]string {
	return [][]string{
		{"sacct", "-a", "-D", "-n", "-P", "-S", "2020-01-01", "-E", "now+1days", "-o", "jobid,uid,account,state,exitcode,start,end,elapsed,ncpus,nodelist"},
		{"sacctmgr", "-n", "-P", "show", "assoc", "format=cluster,account,user,share,grpjobs,maxjobs,qos"},
		{"sacctmgr", "-n", "-P", "show", "account", "format=account,description,organization"},
	}
}

// copyDatabase copies all tables when slurmdbd has committed what it tells.
func (v *conversion) copyDatabase(t *testing.T) {
	until(t, "slurmdbd has committed all jobs' ends", func() (bool, string) {
		open := v.sql(t, "SELECT COUNT(*) FROM slurm_acct_db.sandbox_job_table WHERE time_end=0")
		return open == "0\n", open
	})
	v.sql(t, "CREATE DATABASE %[1]s; GRANT ALL ON %[1]s.* TO slurm@'%%'", v.database)
	var all bytes.Buffer
	for table := range strings.FieldsSeq(v.sql(t, "SELECT table_name FROM information_schema.tables WHERE table_schema='slurm_acct_db'")) {
		fmt.Fprintf(&all, "CREATE TABLE %[1]s.%[2]s LIKE slurm_acct_db.%[2]s; INSERT INTO %[1]s.%[2]s SELECT * FROM slurm_acct_db.%[2]s;\n", v.database, table)
	}
	fmt.Fprintf(&all, "UPDATE %s.cluster_table SET control_host='', control_port=0", v.database) // slurmctld is the original's
	v.sql(t, "%s", all.String())
}

// sql is what MariaDB answers, without headings.
func (v *conversion) sql(t *testing.T, format string, args ...any) string {
	t.Helper()
	return v.run(t, sandbox.Database, "mariadb", "--batch", "--skip-column-names", "-e", fmt.Sprintf(format, args...))
}

// holder is the session that holds up the conversion.
func (v *conversion) holder(t *testing.T) string {
	return strings.TrimSpace(v.sql(t, "SELECT id FROM information_schema.processlist WHERE db='%s' AND info LIKE 'SELECT SLEEP%%'", v.database))
}

// waiting is slurmdbd's session while it waits for the table, 0 for none.
func (v *conversion) waiting(t *testing.T) int {
	id := strings.TrimSpace(v.sql(t, "SELECT id FROM information_schema.processlist WHERE db='%s' AND user='slurm' AND state LIKE '%%metadata lock'", v.database))
	session, _ := strconv.Atoi(id)
	return session
}

// release has the conversion go on.
func (v *conversion) release(t *testing.T) { v.sql(t, "KILL %s", v.holder(t)) }

// spec is the pod's: slurmdbd, with time to end.
func (v *conversion) spec() sandbox.PodSpec {
	spec := v.Slurmdbd()
	spec.Name, spec.Image = v.pod, v.image
	spec.Env["SLURMLET_GRACE_PERIOD"] = conversionGrace.String()
	spec.Env["SLURMLET_UPGRADE"] = cmp.Or(v.upgrade, "off")
	if spec.Env["SLURMLET_DUMP_DIR"] = v.dumps; v.dumps == "/dumps" {
		spec.Volumes = append(spec.Volumes, sandbox.Volume{Name: "dumps", Path: v.dumps, Shared: true, Mode: 0o700})
	}
	for i := range spec.Volumes {
		if spec.Volumes[i].Name == sandbox.DBDConf {
			spec.Volumes[i].Files = v.files("6819")
		}
	}
	return spec
}

// files are those of the pod's Secret.
func (v *conversion) files(port string) map[string]sandbox.File {
	files := v.DBDFiles(sandbox.DatabasePassword)
	conf := files["slurmdbd.conf"]
	conf.Data = []byte(strings.NewReplacer("DbdHost=slurmdbd", "DbdHost="+v.pod, "slurm_acct_db", v.database).Replace(string(conf.Data)) + "DbdPort=" + port + "\n")
	files["slurmdbd.conf"] = conf
	return files
}

// edit edits the pod's Secret, and returns when the agent has seen that.
func (v *conversion) edit(t *testing.T, files map[string]sandbox.File) {
	t.Helper()
	seen := func() int {
		log, err := v.Logs(t.Context(), v.pod)
		require.NoError(t, err)
		return strings.Count(log, "the configuration has changed")
	}
	before := seen()
	require.NoError(t, v.SetFiles(t.Context(), v.pod, sandbox.DBDConf, files))
	until(t, "the agent has seen the edit", func() (bool, string) { return seen() > before, "" })
}

// isHeldUp plays the kubelet, which asks the chart's probes, for as long as the conversion is held up. It goes on in the same
// session of the same slurmdbd.
func (v *conversion) isHeldUp(t *testing.T, state supervisor.Phase, says string) {
	t.Helper()
	for end := time.Now().Add(heldUp()); ; <-time.After(time.Second) {
		require.Equal(t, v.session, v.waiting(t), "the conversion's session in the database")
		for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
			response, err := v.HTTP().Get("http://" + v.pod + ":" + strconv.Itoa(sandbox.AgentPort) + path)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, want, response.StatusCode, path)
		}
		v.run(t, v.pod, "slurmlet", "probe", "liveness")
		if !time.Now().Before(end) {
			break
		}
	}
	s := v.agent(t, v.pod)
	require.NotNil(t, s.Main)
	assert.Equal(t, v.main, s.Main.PID)
	assert.Equal(t, state, s.State)
	assert.Contains(t, s.Reason, "slurmdbd converts its database or waits for it since "+s.Main.Since.UTC().Format(time.RFC3339)+": ")
	assert.Contains(t, s.Reason, says)
	said, _, code, err := v.Exec(t.Context(), v.pod, "slurmlet", "probe", "readiness")
	require.NoError(t, err)
	assert.NotZero(t, code)
	assert.Contains(t, said, "slurmdbd converts its database or waits for it")
}

// hasAll compares what newSlurm's commands tell of the converted database with what 24.11's have told of the original.
func (v *conversion) hasAll(t *testing.T, port string) {
	t.Helper()
	conf := "ClusterName=sandbox\nSlurmctldHost=slurmctld\nAuthType=auth/slurm\nCredType=cred/slurm\n" +
		"AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=" + v.pod + "\nAccountingStoragePort=" + port + "\n"
	v.run(t, v.pod, "sh", "-c", "printf '%s' \"$0\" >/tmp/slurm.conf", conf)
	run := func(args ...string) string {
		return v.run(t, v.pod, append([]string{"env", "SLURM_CONF=/tmp/slurm.conf"}, args...)...)
	}
	assert.Contains(t, run("sacct", "--version"), v.image)
	for i, args := range v.questions() {
		now := sorted(run(args...))
		assert.Equal(t, v.records[i], now, "%v", args)
		assert.NotEmpty(t, now)
	}
}
