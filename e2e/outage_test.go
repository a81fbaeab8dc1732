//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// leaving is a pod that is on its way down when it loses slurmctld: where it is then.
type leaving struct {
	node string
	// step is what its scontrol is about to do, or has just done; empty for a pod that waits for its job.
	step string
	// later: it is told to end only when slurmctld is away.
	later bool
	// idle: it has no job.
	idle bool
}

var leavings = []leaving{
	{node: "node-2", later: true},
	{node: "node-3", step: "before update*state=drain*"},
	{node: "node-4"},
	{node: "node-5", step: "before delete*", idle: true},
	{node: "node-6", step: "after delete*", idle: true},
}

// outage is how slurmctld is lost, and found again.
type outage struct {
	begin, end func(t *testing.T, c *cluster)
}

var (
	slurmctldIsDeleted = outage{
		func(t *testing.T, c *cluster) {
			require.NoError(t, c.Delete(t.Context(), sandbox.Slurmctld, grace))
		},
		func(t *testing.T, c *cluster) {
			require.NoError(t, c.Create(t.Context(), c.Slurmctld()))
		},
	}
	linksAreCut = outage{
		func(t *testing.T, c *cluster) { c.linkAll(t, false) },
		func(t *testing.T, c *cluster) { c.linkAll(t, true) },
	}
)

func (c *cluster) linkAll(t *testing.T, up bool) {
	t.Helper()
	for _, l := range leavings {
		require.NoError(t, c.Link(t.Context(), l.node, up))
	}
}

// outageGrace has jobs requeued two minutes after SIGTERM.
const outageGrace = 3 * time.Minute

func slurmctldStopsForAWhile(t *testing.T, c *cluster) { c.losesSlurmctld(t, slurmctldIsDeleted) }
func linksAreCutForAWhile(t *testing.T, c *cluster)    { c.losesSlurmctld(t, linksAreCut) }

// losesSlurmctld: at each step of the way down slurmctld is lost, and back
// before the time is over. Jobs end as they would have, and no record stays.
func (c *cluster) losesSlurmctld(t *testing.T, o outage) {
	defer c.leavers(t, c.leavingPods(outageGrace)...)()
	defer c.letGo(t)
	jobs := c.beginToLeave(t)
	o.begin(t, c)
	over := false
	defer func() {
		if !over {
			o.end(t, c)
		}
	}()
	c.letGo(t)
	for _, l := range leavings {
		if l.later {
			c.terminate(t, l.node)
		}
		until(t, l.node+" has noticed", func() (bool, string) {
			s, said := c.inside(t, l.node)
			gone := l.step == "after delete*" && (c.pod(t, l.node).State == sandbox.Exited || s.Doing == "waiting for the daemon to stop")
			waits := l.step == "" && !l.later && s.Reason == "jobs run on it"
			return gone || waits || s.State == supervisor.Stopping && (strings.Contains(s.Reason, "scontrol ") || strings.Contains(s.Reason, "sinfo: ")), said
		})
	}
	for node := range jobs {
		assert.Contains(t, c.run(t, node, "ps", "-eo", "args"), "slurm_script", "the job on %s lives", node)
	}
	o.end(t, c)
	over = true
	c.waitReady(t, sandbox.Slurmctld, "node-0", "node-1")
	for _, l := range leavings {
		if id := jobs[l.node]; id != "" {
			c.let(t, id)
		}
		_, took := c.left(t, l.node, outageGrace, agent.ExitOK)
		t.Logf("%s: exit %v after SIGTERM", l.node, took)
		assert.Nil(t, c.record(t, l.node))
	}
	for node, id := range jobs {
		job := c.job(t, id)
		assert.Equal(t, []string{"COMPLETED", "0"}, []string{job["JobState"], job["Restarts"]}, node)
	}
}

func (c *cluster) leavingPods(grace time.Duration) (specs []sandbox.PodSpec) {
	for i := range leavings {
		specs = append(specs, holdable(c.leaver(i+2, grace)))
	}
	return specs
}

// beginToLeave brings each pod where it is to be; jobs are those on them.
func (c *cluster) beginToLeave(t *testing.T) map[string]string {
	t.Helper()
	jobs := map[string]string{}
	for _, l := range leavings {
		if !l.idle {
			jobs[l.node] = c.submit(t, waits, "-w", l.node, "--mem=64", "--requeue")
		}
	}
	for _, id := range jobs {
		c.waitJob(t, id, "RUNNING")
	}
	for _, l := range leavings {
		switch {
		case l.later:
		case l.step == "":
			c.terminate(t, l.node)
			c.waitPatient(t, l.node)
		default:
			c.hold(t, l.node, l.step)
			c.terminate(t, l.node)
			c.waitHeld(t, l.node)
		}
	}
	return jobs
}

// linkNeverBack: pods that are cut off for good, before the drain and when jobs
// are to be requeued, let their jobs live as long as there is time, and end. The
// next pods of these names take the records over.
func linkNeverBack(t *testing.T, c *cluster) {
	const short, least = 40 * time.Second, 19 * time.Second // slurmd is stopped after 34 s
	nodes := []string{"node-2", "node-3"}
	defer c.leavers(t, c.leaver(2, short), holdable(c.leaver(3, short)))()
	defer c.letGo(t)
	jobs := map[string]string{}
	for _, node := range nodes {
		jobs[node] = c.submit(t, lives, "-w", node, "--mem=64", "--requeue")
		c.waitJob(t, jobs[node], "RUNNING")
	}
	c.hold(t, "node-3", "before requeue*")
	c.terminate(t, "node-3")
	require.NoError(t, c.Link(t.Context(), "node-2", false))
	c.terminate(t, "node-2")
	c.waitHeld(t, "node-3")
	require.NoError(t, c.Link(t.Context(), "node-3", false))
	c.letGo(t)
	for _, node := range nodes {
		at, took := c.left(t, node, short, agent.ExitLeft)
		lived := took - at.Sub(told(t, c.run(t, "login", "cat", "/shared/"+jobs[node]+".now")))
		t.Logf("%s: exit %v after SIGTERM; the job lived for %v", node, took, lived)
		assert.Greater(t, lived, least, "no job is killed before the time is over")
	}
	for i, node := range nodes {
		require.NoError(t, c.Delete(t.Context(), node, 0))
		require.NoError(t, c.Create(t.Context(), c.leaver(i+2, grace)))
	}
	c.waitReady(t, nodes...)
	for _, node := range nodes {
		until(t, "the job of "+node+" is requeued", func() (bool, string) {
			job := c.job(t, jobs[node]) // it may run again, two minutes later
			return job["Restarts"] == "1" && !strings.Contains(job["JobState"], "COMPLETING"), job["JobState"]
		})
		c.run(t, sandbox.Slurmctld, "scancel", jobs[node])
		until(t, node+" is idle and in service", func() (bool, string) {
			r := c.record(t, node)
			return r != nil && r.Is("IDLE") && !r.Busy() && !r.Drained(), fmt.Sprint(r)
		})
	}
}
