//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// associationsEnforced: slurmctld takes the begin of pending jobs whose user has no association, and they run early as
// soon as there is one. The edit's answer names them, and the edit goes live when there are none. An association with
// another partition is none of theirs. Other pending jobs without one are named, and hold nothing up.
func associationsEnforced(t *testing.T, c *cluster) {
	e := &editing{cluster: c}
	other := c.Cluster
	other.SlurmConf += "AccountingStorageEnforce=associations\n"
	with := map[string]sandbox.File{"slurm.conf": {Data: []byte(other.SlurmConf)}, "cgroup.conf": {Data: []byte(other.CgroupConf)}}
	later := c.submit(t, "true", "--begin=now+1hour")
	held := c.submit(t, "true", "--hold")
	c.run(t, sandbox.Slurmctld, "sacctmgr", "-i", "add", "account", "users")
	c.run(t, sandbox.Slurmctld, "sacctmgr", "-i", "add", "user", sandbox.User, "account=users", "partition=many")
	begin := c.job(t, later)["EligibleTime"]
	good := c.agent(t, sandbox.Slurmctld).Conf.Good

	e.swap(t, with)
	var why string
	until(t, "the edit is refused", func() (bool, string) {
		s := c.agent(t, sandbox.Slurmctld).Conf
		if s.Refused != nil {
			why = strings.Join(s.Refused.Why, "\n")
		}
		return s.Doing == "" && (s.Refused != nil || s.Good != good), tells(s)
	})
	assert.Contains(t, why, later+" of "+sandbox.User)
	assert.NotContains(t, why, held+" of "+sandbox.User, "it loses no begin")
	assert.Equal(t, begin, c.job(t, later)["EligibleTime"])

	c.run(t, sandbox.Slurmctld, "sacctmgr", "-i", "add", "user", sandbox.User, "account=users")
	good = e.waitLive(t, good)
	assert.Equal(t, begin, c.job(t, later)["EligibleTime"], "the job has an association now")

	e.swap(t, map[string]sandbox.File{"slurm.conf": {Data: []byte(c.SlurmConf)}, "cgroup.conf": {Data: []byte(c.CgroupConf)}})
	require.NotEmpty(t, e.waitLive(t, good))
	c.run(t, sandbox.Slurmctld, "scancel", "--user="+sandbox.User)
	c.run(t, sandbox.Slurmctld, "sacctmgr", "-i", "delete", "user", sandbox.User)

	held = c.submit(t, "true", "--hold")
	good = c.agent(t, sandbox.Slurmctld).Conf.Good
	e.swap(t, with)
	good = e.waitLive(t, good)
	until(t, "the status names the job that waits for an association", func() (bool, string) {
		text := c.run(t, sandbox.Slurmctld, "slurmlet", "status")
		return strings.Contains(text, "users of pending jobs have none ("+held+" of "+sandbox.User+")"), text
	})
	assert.Equal(t, "PENDING", c.job(t, held)["JobState"])
	e.swap(t, map[string]sandbox.File{"slurm.conf": {Data: []byte(c.SlurmConf)}, "cgroup.conf": {Data: []byte(c.CgroupConf)}})
	require.NotEmpty(t, e.waitLive(t, good))
	c.run(t, sandbox.Slurmctld, "scancel", "--user="+sandbox.User)
	c.run(t, sandbox.Slurmctld, "sacctmgr", "-i", "delete", "account", "users")
}
