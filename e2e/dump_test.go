//go:build e2e

package e2e

import (
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/papers"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// oddTable has values that a dump may get wrong, none of them Slurm's.
const oddTable = "CREATE TABLE %[1]s.`odd ``name` (a VARCHAR(40) CHARACTER SET latin1, b LONGBLOB, c DOUBLE, d BIT(3), e DECIMAL(30,10), " +
	"f LONGTEXT CHARACTER SET utf8mb4, g BIGINT UNSIGNED, h TIMESTAMP NULL, i INT AUTO_INCREMENT PRIMARY KEY); " +
	"INSERT INTO %[1]s.`odd ``name` VALUES ('d\\'\\\\ \\\"\\0\\Z\\r\\n\\t;--\\n/* ä', x'00ff0a0d27', 0.1, b'101', -12345678901234567890.0123456789, '😀\\r\\n\\\\', 18446744073709551615, '2020-06-01 12:00:00', 7), " +
	"('', '', -1e300, NULL, NULL, NULL, NULL, NULL, 8); " +
	"SET sql_mode='NO_AUTO_VALUE_ON_ZERO'; INSERT INTO %[1]s.`odd ``name` (i, f) VALUES (0, REPEAT('x', 3000000))"

// conversionKeepsDump: slurmdbd converts nothing before there is a whole dump, and the lines of docs/run/upgrade.md bring
// back what the older slurmdbd had.
func conversionKeepsDump(t *testing.T, c *cluster) {
	v := copied(t, c, "dumped")
	v.sql(t, oddTable, v.database)
	checksums := func() string {
		tables := strings.Split(strings.TrimSpace(v.sql(t, "SELECT table_name FROM information_schema.tables WHERE table_schema='%s' ORDER BY 1", v.database)), "\n")
		for i, name := range tables {
			tables[i] = v.database + ".`" + strings.ReplaceAll(name, "`", "``") + "`"
		}
		return v.sql(t, "CHECKSUM TABLE %s EXTENDED", strings.Join(tables, ", "))
	}
	columns, before := v.columns(t), checksums()

	v.dumps = ""
	v.refused(t, "set SLURMLET_DUMP_DIR to a directory on a volume")
	v.dumps = "/nowhere"
	v.refused(t, "cannot dump the database acct_dumped before Slurm 26.05 converts it, so slurmdbd is not started")
	v.dumps = "/dumps"
	require.NoError(t, v.Create(t.Context(), v.spec()))
	v.waitReady(t, v.pod)
	v.hasAll(t, "6819")
	dump := v.agent(t, v.pod).DatabaseDump
	require.NotNil(t, dump)
	assert.Regexp(t, `^/dumps/acct_dumped-before-26\.05-\d{8}T\d{6}Z\.sql\.gz$`, dump.File)
	assert.True(t, dump.Complete)
	assert.Contains(t, v.run(t, v.pod, "slurmlet", "status"), dump.String())
	assert.Equal(t, "600 "+dump.File+"\n", v.run(t, v.pod, "sh", "-c", "stat -c '%a %n' /dumps/*"))
	log, err := v.Logs(t.Context(), v.pod)
	require.NoError(t, err)
	assert.Contains(t, log, "the dump of the database is complete")
	assert.NotEqual(t, columns, v.columns(t), "26.05 has converted it")
	require.NoError(t, v.Delete(t.Context(), v.pod, grace))
	v.serves(t) // which dumps nothing that is converted

	v.image, v.upgrade = "24.11", "off"
	v.refused(t, "restore the dump of before the upgrade")
	restore := restoreOf(t, v.database, path.Base(dump.File))
	cut := strings.Replace(restore, "zcat \"$1\" |", "zcat \"$1\" | head -c 2000000 |", 1)
	require.NotEqual(t, restore, cut)
	v.restores(t, "{ "+cut+"} || true")
	v.waits(t, "a dump is being restored there, or its restore was cut off")
	v.restores(t, restore)
	assert.Equal(t, columns, v.columns(t))
	assert.Equal(t, before, checksums())
	v.serves(t)
	v.ofViews(t, "sandbox_job_table")
}

// ofViews: a database of an older Slurm that shows its tables to nobody, as views do, is neither dumped nor converted.
func (v *conversion) ofViews(t *testing.T, table string) {
	const views = "acct_views"
	v.sql(t, "CREATE DATABASE %[1]s; GRANT ALL ON %[1]s.* TO slurm@'%%'; CREATE VIEW %[1]s.%[3]s AS SELECT * FROM %[2]s.%[3]s", views, v.database, table)
	v.database, v.image, v.upgrade = views, newSlurm, "on"
	before := v.columns(t)
	v.waits(t, "cannot dump the database acct_views before Slurm 26.05 converts it, so slurmdbd is not started: the server tells of no tables in it")
	assert.Equal(t, before, v.columns(t), "no table has changed")
}

// restoreOf is the block of docs/run/upgrade.md that restores a dump.
func restoreOf(t *testing.T, database, dump string) string {
	t.Helper()
	p, err := papers.Read("..", "docs/run/upgrade.md")
	require.NoError(t, err)
	for _, b := range p.Blocks {
		if strings.Contains(b.Text, "DROP DATABASE") {
			text := regexp.MustCompile(`slurm_acct_db-before-\S+\.sql\.gz`).ReplaceAllLiteralString(b.Text, dump)
			return strings.NewReplacer("slurm_acct_db", database, "-h slurm-mariadb", "-h "+sandbox.Database).Replace(text)
		}
	}
	require.Fail(t, "docs/run/upgrade.md has no block that restores a dump")
	return ""
}

// restores runs commands in a pod with the volume of dumps and the database's password.
func (v *conversion) restores(t *testing.T, commands string) {
	t.Helper()
	spec := v.spec()
	spec.Name, spec.Args, spec.Env["MYSQL_PWD"] = "restore", []string{"sleep", "infinity"}, sandbox.DatabasePassword
	require.NoError(t, v.Create(t.Context(), spec))
	const kubectl = "kubectl() { case \"$*\" in *' -- '*) while test \"$1\" != --; do shift; done; shift; \"$@\";; esac; }\n"
	v.run(t, spec.Name, "bash", "-euc", kubectl+commands)
	require.NoError(t, v.Delete(t.Context(), spec.Name, time.Second)) // sleep takes no SIGTERM
}

// waits has the pod say why slurmdbd is not started.
func (v *conversion) waits(t *testing.T, says string) {
	t.Helper()
	require.NoError(t, v.Create(t.Context(), v.spec()))
	var s agent.Status
	until(t, "slurmdbd waits", func() (bool, string) {
		s = v.agent(t, v.pod)
		return strings.Contains(s.Reason, says), s.Reason
	})
	assert.Nil(t, s.Main)
	require.NoError(t, v.Delete(t.Context(), v.pod, grace))
}
