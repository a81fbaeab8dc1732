//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// anotherSet: slurmd 24.11 that runs with IgnoreSystemd=yes cannot reconfigure from there.
// Edits go live all the same, and a job outlives them.
func anotherSet(t *testing.T, c *cluster) {
	id := c.submit(t, waits, "-N2", "--no-requeue")
	c.waitJob(t, id, "RUNNING")
	c.reconfigure(t, "echo IgnoreSystemd=yes >> cgroup.conf")
	edits := 1
	if withTime() {
		edits = 3
	}
	for n := range edits {
		c.reconfigure(t, fmt.Sprintf("sed -i s/^PrologEpilogTimeout=.*/PrologEpilogTimeout=%d/ slurm.conf", 62+n))
	}
	c.nodesIgnoreSystemd(t, true)
	c.replace(t, c.Slurmctld()) // which starts with another set than its nodes run with
	c.nodesIgnoreSystemd(t, false)
	another := c.Cluster
	another.CgroupConf += "IgnoreSystemd=yes\n"
	c.replace(t, another.Slurmctld())
	c.nodesIgnoreSystemd(t, true)
	c.reconfigure(t, "sed -i /IgnoreSystemd/d cgroup.conf")
	c.nodesIgnoreSystemd(t, false)

	assert.Equal(t, "RUNNING", c.job(t, id)["JobState"])
	c.let(t, id)
	c.waitJob(t, id, "COMPLETED")
	c.as(t, "alice", "login", "srun", "-N2", "true")
}

// nodesIgnoreSystemd waits until slurmctld's agent is at rest, and wants every node to take what is
// live: a cgroup.conf with that setting, or without. On a busy machine slurmctld may not have heard of
// a node until then, which is not waited for and has its slurmd restarted by its own agent.
func (c *cluster) nodesIgnoreSystemd(t *testing.T, has bool) {
	t.Helper()
	var conf *reconfig.Status
	until(t, "slurmctld's agent is at rest", func() (bool, string) {
		s := c.agent(t, sandbox.Slurmctld)
		conf = s.Conf
		return s.State == supervisor.Ready && conf.Doing == "", conf.Doing
	})
	assert.Nil(t, conf.Refused)
	assert.Equal(t, conf.Live, conf.Good)
	assert.Positive(t, conf.Took)
	if conf.Took < 2 {
		t.Logf("%d of 2 nodes had taken it: %+v", conf.Took, *conf)
	}
	for _, node := range []string{"node-0", "node-1"} {
		until(t, node+" has it", func() (bool, string) {
			have := c.run(t, node, "cat", "/var/spool/slurmd/conf-cache/cgroup.conf")
			return has == strings.Contains(have, "IgnoreSystemd=yes"), have
		})
	}
	c.waitReady(t, "node-0", "node-1")
}
