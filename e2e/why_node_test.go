//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/kubectl-slurm/why"
)

// outOfService is a node that gets no jobs for one cause.
type outOfService struct {
	name string
	make func(t *testing.T, c *cluster, node string)
	// kind is the surest cause's, text a part of what is said.
	kind, text string
	// command is the cure's, cure what it runs, or does where the cure is a text.
	command string
	cure    func(t *testing.T, c *cluster, node string)
	// lapses: with ReturnToService=2, a registration of slurmd's ends it at any time.
	lapses bool
}

func resumed(t *testing.T, c *cluster, node string) {
	c.run(t, sandbox.Slurmctld, "scontrol", "update", "nodename="+node, "state=resume")
}

// resumedOrBack: slurmctld refuses to resume a node that a registration has resumed.
func resumedOrBack(t *testing.T, c *cluster, node string) {
	_, said, code, err := c.Exec(t.Context(), sandbox.Slurmctld, "scontrol", "update", "nodename="+node, "state=resume")
	require.NoError(t, err)
	if code != 0 {
		require.Contains(t, said, "Invalid node state specified")
	}
}

// setNode has an administrator set a node's state.
func setNode(state string) func(*testing.T, *cluster, string) {
	return func(t *testing.T, c *cluster, node string) {
		c.run(t, sandbox.Slurmctld, "scontrol", "update", "nodename="+node, "state="+state, "reason=the fan is loud")
	}
}

var outs = []outOfService{
	{"drained by a person", setNode("drain"), "drained", "by root since", "kubectl slurm resume -n slurm node-2", resumed, false},
	{"drained by slurmlet drain", func(t *testing.T, c *cluster, node string) {
		c.run(t, node, "slurmlet", "drain", "-reason", "the fan is loud")
	}, "drained", "slurmlet drain: the fan is loud", "kubectl slurm resume -n slurm node-2", func(t *testing.T, c *cluster, node string) {
		c.run(t, node, "slurmlet", "resume")
	}, false},
	{"set DOWN by a person", setNode("down"), "down", "the fan is loud", "kubectl slurm resume -n slurm node-2", resumedOrBack, true},
	{"the disk is full", func(t *testing.T, c *cluster, node string) {
		c.waitJob(t, c.submit(t, "dd if=/dev/zero of=/var/tmp/filler bs=1M count=170 2>&1", "-w", node), "COMPLETED")
	}, "disk", "of alice", "make room on the pod's disk", func(t *testing.T, c *cluster, node string) {
		c.run(t, node, "rm", "/var/tmp/filler")
	}, false},
	{"reserved for maintenance", func(t *testing.T, c *cluster, node string) {
		c.run(t, sandbox.Slurmctld, "scontrol", "create", "reservation", "reservationname=repair", "starttime=now", "duration=30", "users=root", "flags=maint", "nodes="+node)
	}, "reserved", "repair has it until", "scontrol delete reservation=repair", func(t *testing.T, c *cluster, node string) {
		c.run(t, sandbox.Slurmctld, "scontrol", "delete", "reservation=repair")
	}, false},
}

// whyNodesAreOut takes a node out of service by each cause, and brings it back by what kubectl slurm why says.
func whyNodesAreOut(t *testing.T, c *cluster) {
	const node, grace = "node-2", 2 * time.Minute
	spec := c.leaver(2, grace)
	spec.Env["SLURMLET_STORAGE_LIMIT"], spec.Env["SLURMLET_TMP_DIR"] = "200Mi", "/var/tmp"
	defer c.leavers(t, spec)()
	for _, one := range outs {
		t.Run(one.name, func(t *testing.T) {
			one.make(t, c, node)
			answer := c.whyNode(t, node, one.kind, one.text, func() {
				if one.lapses && !c.record(t, node).Is("DOWN") {
					one.make(t, c, node)
				}
			})
			require.Contains(t, said(answer), one.command)
			one.cure(t, c, node)
			until(t, "there is nothing to mend", func() (bool, string) {
				answer := c.why(t, node)
				return answer.Fine && len(answer.Causes) == 0, said(answer)
			})
		})
	}
	t.Run("its pod is deleted under a job", func(t *testing.T) {
		id := c.submit(t, waits, "-w", node, "--mem=64")
		c.waitJob(t, id, "RUNNING")
		c.terminate(t, node)
		answer := c.whyNode(t, node, "slurmlet", "slurmlet: pod is terminating", func() {})
		assert.Contains(t, said(answer), "nothing: the pod ends when its jobs are over")
		c.let(t, id)
		c.left(t, node, grace, agent.ExitOK)
		assert.Equal(t, "COMPLETED", c.job(t, id)["JobState"])
	})
}

// why is what kubectl slurm why says of a node.
func (c *cluster) why(t *testing.T, node string) why.Answer {
	t.Helper()
	facts, err := why.GatherNode(t.Context(), sandboxWorld{c, sandbox.Slurmctld}, node, time.Now())
	require.NoError(t, err)
	return why.Judge(facts)
}

// whyNode waits until the surest cause of a node's is of a kind, and its text has a part; before each question, again is run.
func (c *cluster) whyNode(t *testing.T, node, kind, text string, again func()) (answer why.Answer) {
	t.Helper()
	until(t, "why says "+kind, func() (bool, string) {
		again()
		answer = c.why(t, node)
		surest := slices.IndexFunc(answer.Causes, func(one why.Cause) bool { return one.Sure == why.Certain })
		return surest == 0 && answer.Causes[0].Kind == kind && strings.Contains(said(answer), text), said(answer)
	})
	assert.Empty(t, answer.Unknown)
	t.Log(said(answer))
	return answer
}
