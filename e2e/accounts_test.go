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

const (
	// accountsVolume is slurmctld's with the file that its agent applies.
	accountsVolume, accountsFile = "accounts", "accounts.yaml"
	noAccounts                   = "users: {}\n"
)

// withAccounts gives slurmctld's pod a file of accounts that has none yet.
func withAccounts(spec sandbox.PodSpec) sandbox.PodSpec {
	spec.Env["SLURMLET_ACCOUNTS"] = "/etc/slurmlet/accounts/" + accountsFile
	spec.Volumes = append(spec.Volumes, sandbox.Volume{
		Name: accountsVolume, Path: "/etc/slurmlet/accounts", Projected: true, Files: map[string]sandbox.File{accountsFile: {Data: []byte(noAccounts)}},
	})
	return spec
}

// accounts runs "slurmlet accounts" with a file in slurmctld's pod.
func (c *cluster) accounts(t *testing.T, file string, args ...string) (out string, code int) {
	t.Helper()
	return c.accountsOf(t, "cat > /tmp/site.yaml <<'END'\n"+file+"\nEND", args...)
}

// accountsOf has a script write the file /tmp/site.yaml.
func (c *cluster) accountsOf(t *testing.T, script string, args ...string) (out string, code int) {
	t.Helper()
	script += "\nslurmlet accounts " + strings.Join(args, " ") + " -record /tmp/site.made /tmp/site.yaml 2>&1"
	out, stderr, code, err := c.ExecAs(t.Context(), sandbox.Slurmctld, sandbox.How{User: "root", Dir: "/tmp"}, "sh", "-c", script)
	require.NoError(t, err)
	return out + stderr, code
}

func (c *cluster) apply(t *testing.T, file string, args ...string) string {
	t.Helper()
	out, code := c.accounts(t, file, append([]string{"apply"}, args...)...)
	require.Zero(t, code, out)
	return out
}

const site = `qos:
  urgent: {Priority: 100, MaxWall: 1-00:00:00, Flags: DenyOnLimit, Preempt: normal, MaxTRESPerUser: {cpu: 8, mem: 1.5G}, GraceTime: 90}
accounts:
  science: {Description: Science dept, Organization: Uni, Fairshare: 10, GrpTRES: {cpu: 100, mem: 1T}, QOS: [normal, urgent], Coordinators: anna}
  chem: {Parent: science, MaxJobs: 20, GrpWall: 90, DefaultQOS: urgent, Comment: of chemists}
users:
  anna: {DefaultAccount: science, AdminLevel: Operator, Accounts: {science: , chem: {MaxJobs: 3}}}
  ben: science
  cora: {Accounts: {chem: {Partitions: [many]}}, Fairshare: 2}
`

// accountsApplied: the command's diff and apply, again, a change, a removal, a refusal in the middle, and many users.
func accountsApplied(t *testing.T, c *cluster) {
	diff, code := c.accounts(t, site, "diff")
	assert.Equal(t, 1, code, diff)
	assert.Contains(t, diff, "sacctmgr -i add user Name=anna,ben Cluster=")
	before := c.run(t, sandbox.Slurmctld, "sacctmgr", "-n", "-P", "show", "assoc", "format=account,user")
	assert.NotContains(t, before, "science", "a diff changes nothing")
	c.apply(t, site)
	assert.Equal(t, "nothing to do: slurmdbd has what the file has\n", c.apply(t, site))
	rows := c.run(t, sandbox.Slurmctld, "sacctmgr", "-n", "-P", "show", "assoc", "woplimits", "format=account,user,partition,share,maxjobs,grptres,qos")
	for _, row := range []string{
		"science|||10||cpu=100,mem=1T|normal,urgent", "science|anna||1|||", "chem|||1|20||", "chem|anna||1|3||", "chem|cora|many|2|||", "science|ben||1|||",
	} {
		assert.Contains(t, strings.Split(rows, "\n"), row)
	}
	assert.Equal(t, "anna|science|Operator\n", c.run(t, sandbox.Slurmctld, "sacctmgr", "-n", "-P", "show", "user", "anna"))

	notWhole(t, c)

	changed := strings.Replace(strings.Replace(site, "MaxJobs: 20", "MaxJobs: 21", 1), "  ben: science\n", "", 1)
	c.run(t, sandbox.Slurmctld, "sacctmgr", "-i", "add", "user", "dora", "account=science")
	out := c.apply(t, changed)
	assert.Equal(t, "done: modify account chem MaxJobs=21 (was 20)\ndone: remove user ben\n", out)
	assert.Equal(t, "science|dora\n", c.run(t, sandbox.Slurmctld, "sacctmgr", "-n", "-P", "show", "assoc", "user=ben,dora", "format=account,user"))

	// chem has no QOS of that name, so slurmdbd refuses one of the changes.
	c.run(t, sandbox.Slurmctld, "sacctmgr", "-i", "add", "qos", "other")
	refused := strings.Replace(changed, "users:\n", "users:\n  erik: {DefaultAccount: chem, Accounts: {chem: {DefaultQOS: other}}}\n  fred: chem\n", 1)
	out, code = c.accounts(t, refused, "apply")
	assert.Equal(t, 1, code, out)
	assert.Contains(t, out, "done: add user fred")
	assert.Contains(t, out, "not done: add user erik")
	t.Log(out)
	c.apply(t, strings.Replace(refused, "DefaultQOS: other", "DefaultQOS: urgent", 1))

	bad, code := c.accounts(t, strings.Replace(site, "MaxJobs: 20", "MaxJobs: many, Parents: x", 1), "apply")
	assert.Equal(t, 78, code)
	assert.Contains(t, bad, "/tmp/site.yaml:5: error: MaxJobs: cannot use \"many\": want a whole number")
	assert.Contains(t, bad, "unknown key \"Parents\"")

	out, code = c.accounts(t, noAccounts, "apply")
	assert.Equal(t, 78, code, out)
	assert.Contains(t, out, "the removals are not confirmed: 7 would be removed")
	out = c.apply(t, noAccounts, "-confirm 7")
	assert.Contains(t, out, "account science stays: user dora in account science is below it")
	c.run(t, sandbox.Slurmctld, "sacctmgr", "-i", "delete", "user", "dora")
	c.run(t, sandbox.Slurmctld, "sacctmgr", "-i", "delete", "qos", "other")
	c.apply(t, noAccounts)
	rows = c.run(t, sandbox.Slurmctld, "sacctmgr", "-n", "-P", "show", "assoc", "format=account,user")
	assert.Equal(t, before, rows)
	manyUsers(t, c)
}

// notWhole: the database lacks a table for a while, so slurmdbd's answers lack what is in it. Nothing follows from them.
func notWhole(t *testing.T, c *cluster) {
	rename := func(from, to string) {
		c.run(t, sandbox.Database, "mariadb", "-e", "RENAME TABLE slurm_acct_db."+from+" TO slurm_acct_db."+to)
	}
	for _, table := range []string{"user_table", "acct_table", "sandbox_assoc_table", "qos_table"} {
		rename(table, "away")
		out, code := c.accounts(t, site, "diff")
		applied, applyCode := c.accounts(t, site, "apply")
		rename("away", table)
		assert.Equal(t, []int{69, 69}, []int{code, applyCode}, "without %s: %s%s", table, out, applied)
		t.Logf("without %s: %s", table, out)
	}
	assert.Equal(t, "nothing to do: slurmdbd has what the file has\n", c.apply(t, site))
}

// manyUsers prints what 1,000 users take, or fewer where time is short: the processes of sacctmgr are as many as for one.
// The pods know the users.
func manyUsers(t *testing.T, c *cluster) {
	count := 100
	if withTime() {
		count = 1000 // 10,000 took 26.05 seven minutes and more on a loaded machine
	}
	const passwd = `seq -f 'firstname.familyname-%%05g:x:9%%05g:9::/:/bin/sh' 1 %d | awk -F: -v OFS=: '{$3 = 100000 + NR; print}' >> /etc/passwd`
	for _, pod := range []string{sandbox.Slurmctld, sandbox.Slurmdbd} {
		c.run(t, pod, "sh", "-c", fmt.Sprintf(passwd, count))
	}
	const line = "  firstname.familyname-%%05g: {DefaultAccount: crowd, MaxJobs: "
	users := fmt.Sprintf("{ echo 'accounts: {crowd: {}}'; echo users:; seq -f '"+line+"1}' 1 2 %[1]d; seq -f '"+line+"2}' 2 2 %[1]d; } > /tmp/site.yaml", count)
	for _, one := range []struct{ what, script, args string }{
		{"nothing is done but a diff", users, "diff"},
		{"users are added", users, "apply"},
		{"a second apply", users, "apply"},
		{"a limit of half of them changes", strings.Replace(users, "MaxJobs: 2", "MaxJobs: 3", 1), "apply"},
		{"users are removed", "echo 'users: {}' > /tmp/site.yaml", fmt.Sprintf("apply -confirm %d", count+1)},
	} {
		before, began := c.processorTimes(t), time.Now()
		out, code := c.accountsOf(t, one.script, one.args, "-cluster sandbox")
		took, after := time.Since(began), c.processorTimes(t)
		if one.args != "diff" {
			require.Zero(t, code, out)
		}
		t.Logf("%d users, %s: %.1f s, %d lines; processor time: slurmctld %.1f s, slurmdbd %.1f s, MariaDB %.1f s", count, one.what,
			took.Seconds(), strings.Count(out, "\n"), after[0]-before[0], after[1]-before[1], after[2]-before[2])
	}
}

// processorTimes are those of slurmctld's, slurmdbd's and MariaDB's pods so far, in seconds.
func (c *cluster) processorTimes(t *testing.T) (all [3]float64) {
	for i, pod := range []string{sandbox.Slurmctld, sandbox.Slurmdbd, sandbox.Database} {
		out := c.run(t, pod, "sh", "-c", "cat /proc/[0-9]*/stat | sed 's/.*) //' | awk '{s += $12 + $13 + $14 + $15} END {print s / 100}'")
		_, err := fmt.Sscan(out, &all[i])
		require.NoError(t, err, out)
	}
	return all
}

// accountsOfTheAgent: slurmctld's agent applies the file at each edit, and says what keeps it from that.
func accountsOfTheAgent(t *testing.T, c *cluster) {
	edit := func(text string) {
		require.NoError(t, c.SetFiles(t.Context(), sandbox.Slurmctld, accountsVolume, map[string]sandbox.File{accountsFile: {Data: []byte(text)}}))
	}
	has := func(what, rows string) {
		until(t, what, func() (bool, string) {
			now := c.run(t, sandbox.Slurmctld, "sacctmgr", "-n", "-P", "show", "assoc", "account=lab", "format=account,user,maxjobs", "woplimits")
			return now == rows, now + fmt.Sprintf("%+v", c.agent(t, sandbox.Slurmctld).Accounts)
		})
	}
	edit("accounts: {lab: {}}\nusers: {gina: {DefaultAccount: lab, MaxJobs: 2}, hugo: lab}\n")
	has("the agent applies the file", "lab||\nlab|gina|2\nlab|hugo|\n")
	edit("accounts: {lab: {}}\nusers: {gina: {DefaultAccount: lab, MaxJobs: none}}\n")
	until(t, "the agent says what is wrong", func() (bool, string) {
		why := strings.Join(c.agent(t, sandbox.Slurmctld).Accounts.Why, "\n")
		return strings.Contains(why, "accounts.yaml:2: error: MaxJobs: cannot use \"none\""), why
	})
	has("a file with a fault changes nothing", "lab||\nlab|gina|2\nlab|hugo|\n")
	assert.Positive(t, c.numbers(t, sandbox.Slurmctld)[`slurmlet_accounts_refused{reason="file"}`])
	edit("accounts: {lab: {}}\nusers: {gina: lab}\n")
	has("a user and a limit go", "lab||\nlab|gina|\n")
	until(t, "nothing is wrong", func() (bool, string) {
		s := c.agent(t, sandbox.Slurmctld).Accounts
		return s.Why == nil && !s.Applied.IsZero(), fmt.Sprintf("%+v", s)
	})
	reconfigure := func(to string) {
		require.NoError(t, c.SetFiles(t.Context(), sandbox.Slurmctld, "etc", map[string]sandbox.File{"slurm.conf": {Data: []byte(to)}}))
		c.run(t, sandbox.Slurmctld, "slurmlet", "reload")
	}
	edit(noAccounts)
	reconfigure(c.SlurmConf + "SchedulerTimeSlice=40\n") // at once: slurmdbd and slurmctld wait for each other otherwise
	has("two of two go", "")
	edit("accounts: {lab: {}}\nusers: {gina: lab}\n")
	reconfigure(c.SlurmConf)
	has("a user is back", "lab||\nlab|gina|\n")
	edit(noAccounts)
	has("all go", "")
}
