//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
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

// drainCases: what becomes of a node's jobs and of its record when its pod is
// deleted. The other nodes stay, for the jobs that move.
var drainCases = []testCase{
	{"pods that are killed sooner than they believe", killedSooner, either},
	{"a pod deleted while its slurmd is dead and slurmctld cut off", slurmdDeadAndCutOff, either},
	{"slurmctld away while a pod is deleted", slurmctldAway, either},
	{"a pod that is cut off for good is deleted", linkNeverBack, either},
	{"slurmctld stops for a while at each step of the way down", slurmctldStopsForAWhile, either},
	{"pods are cut off for a while at each step of the way down", linksAreCutForAWhile, either},
	{"a pod deleted while its slurmd hangs", slurmdHangs, either},
	{"a pod deleted while an epilog runs", epilogRuns, either},
	{"a pod deleted while its job is ending on another node", endsElsewhere(false), both},
	{"a pod deleted after its job's part, which is ending on another node", endsElsewhere(true), both},
	{"an idle pod deleted", idlePodDeleted, either},
	{"a pod deleted while its jobs are suspended", jobsAreSuspended, either},
	{"a container ends with steps that sruns elsewhere wait for", stepsDieWith(theContainer), either},
	{"a pod is killed with steps that sruns elsewhere wait for", stepsDieWith(anotherPod), either},
	{"drained by hand", drainedByHand, either},
}

// reasonTerminate is the reason of the drain of a pod that is deleted.
const reasonTerminate = "slurmlet: pod is terminating"

// waits is a job that ends when it is let, and tells when.
const waits = `until [ -e /shared/$SLURM_JOB_ID.end ]; do sleep 0.2; done; date +%s.%N`

func (c *cluster) let(t *testing.T, id string) {
	t.Helper()
	c.run(t, "login", "touch", "/shared/"+id+".end")
}

// leaver is a pod that is going to be deleted, with three CPUs. Its container
// is not started again, so that its end can be looked at.
func (c *cluster) leaver(i int, grace time.Duration) sandbox.PodSpec {
	spec := c.Node(i)
	spec.Restart = "Never"
	spec.CPU, spec.Env["SLURMLET_CPU_LIMIT"] = 3, "3000"
	spec.Env["SLURMLET_GRACE_PERIOD"] = grace.String()
	return spec
}

// leavers makes pods, and wants them Ready; end takes away what is left of them.
func (c *cluster) leavers(t *testing.T, specs ...sandbox.PodSpec) (end func()) {
	t.Helper()
	require.NoError(t, c.CreateAll(t.Context(), specs...))
	var nodes []string
	for _, s := range specs {
		nodes = append(nodes, s.Name)
	}
	c.waitReady(t, nodes...)
	return func() {
		for _, node := range nodes {
			if t.Failed() {
				c.removeNode(t, node)
				continue
			}
			assert.NoError(t, c.Delete(t.Context(), node, grace))
		}
	}
}

// terminate begins a pod's deletion: SIGTERM, as the kubelet sends it.
func (c *cluster) terminate(t *testing.T, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		require.NoError(t, c.Kill(t.Context(), node, "TERM"))
	}
}

// left waits for the end of a pod that was terminated, and wants it without the
// kubelet's SIGKILL. It returns when it was, and how long after SIGTERM.
func (c *cluster) left(t *testing.T, node string, grace time.Duration, code int) (at time.Time, took time.Duration) {
	t.Helper()
	if !assert.Equal(t, code, c.waitExit(t, node), "the exit status of %s", node) {
		log, _ := c.Logs(t.Context(), node)
		t.Log(log) // the pod is deleted before the logs of a failed test are kept
	}
	var asked time.Time
	for _, line := range c.lines(t, node, agent.Source) {
		when, err := time.Parse(time.RFC3339Nano, fmt.Sprint(line["time"]))
		require.NoError(t, err)
		switch {
		case line["state"] == string(supervisor.Stopping) && asked.IsZero():
			asked = when
		case line["msg"] == "exit":
			at = when
		}
	}
	require.False(t, asked.IsZero() || at.IsZero(), "the log of %s tells of SIGTERM and of the exit", node)
	took = at.Sub(asked)
	assert.Less(t, took, grace, "%s ended before the kubelet's SIGKILL", node)
	return at, took
}

// told is a time that a job wrote with date +%s.%N.
func told(t *testing.T, text string) time.Time {
	t.Helper()
	seconds, fraction, _ := strings.Cut(strings.TrimSpace(text), ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	require.NoError(t, err)
	ns, err := strconv.ParseInt(fraction, 10, 64)
	require.NoError(t, err)
	return time.Unix(s, ns)
}

// waitDrained waits until a node is drained, and wants the reason.
func (c *cluster) waitDrained(t *testing.T, node, reason string) {
	t.Helper()
	until(t, node+" is drained", func() (bool, string) {
		r := c.record(t, node)
		if r == nil {
			return false, "no record"
		}
		return r.Drained() && r.Reason == reason, strings.Join(r.State, "+") + " " + r.Reason
	})
}

// waitPatient waits until the agent waits for jobs, and asks nobody.
func (c *cluster) waitPatient(t *testing.T, node string) {
	t.Helper()
	until(t, node+" waits for its jobs", func() (bool, string) {
		s := c.agent(t, node)
		return s.State == supervisor.Stopping && s.Reason == "jobs run on it", string(s.State) + " " + s.Reason
	})
}

func jobEndsFirst(t *testing.T, c *cluster) {
	const node, grace = "node-2", 2 * time.Minute
	defer c.leavers(t, c.leaver(2, grace))()
	id := c.submit(t, waits, "-w", node, "--mem=64")
	c.waitJob(t, id, "RUNNING")
	c.terminate(t, node)
	c.waitDrained(t, node, reasonTerminate)

	assert.NotContains(t, c.as(t, "alice", "login", "srun", "--mem=64", "hostname"), node, "a new job goes elsewhere at once")
	pinned := c.submit(t, "true", "-w", node, "--mem=64")
	until(t, "slurmctld has heard the end of srun's step, which its slurmstepd may tell after srun", func() (bool, string) {
		completing := c.run(t, sandbox.Slurmctld, "squeue", "--noheader", "--states=completing")
		return completing == "", completing
	})
	c.waitPatient(t, node)
	asked := c.questions(t)
	status, _, code, err := c.Exec(t.Context(), node, "slurmlet", "status")
	require.NoError(t, err)
	assert.Equal(t, agent.ExitNotReady, code)
	assert.Contains(t, status, id+" of alice, RUNNING")
	<-time.After(3 * time.Second)
	assert.Equal(t, asked, c.questions(t), "nothing is asked while the job runs")
	assert.Equal(t, "PENDING", c.job(t, pinned)["JobState"])
	assert.Equal(t, "RUNNING", c.job(t, id)["JobState"])
	c.run(t, sandbox.Slurmctld, "scancel", pinned)

	c.let(t, id)
	at, took := c.left(t, node, grace, agent.ExitOK)
	after := at.Sub(told(t, c.run(t, "login", "cat", "/shared/"+id+".out")))
	t.Logf("exit %v after the job's end, %v after SIGTERM", after, took)
	assert.Less(t, after, slack)
	job := c.job(t, id)
	assert.Equal(t, []string{"COMPLETED", "0:0", "0"}, []string{job["JobState"], job["ExitCode"], job["Restarts"]})
	assert.Nil(t, c.record(t, node))
}

// questions counts what slurmctld was asked, of each kind, but for the question itself.
func (c *cluster) questions(t *testing.T) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\s*(REQUEST_\w+)\s.*count:(\d+)`).FindAllStringSubmatch(c.run(t, sandbox.Slurmctld, "sdiag"), -1) {
		if m[1] != "REQUEST_STATS_INFO" {
			n[m[1]] = seconds(t, m[2])
		}
	}
	require.NotEmpty(t, n)
	return n
}

// fewQuestions are those that another agent may ask once: it was late with what it does after an edit or a start. One that
// asks every second of a drain asks ten times as many.
const fewQuestions = 4

// longDrain: what slurmctld is asked does not grow with the time that a drain takes.
func longDrain(t *testing.T, c *cluster) {
	const node = "node-2"
	first := 30 * time.Second
	if withTime() {
		first = 5 * time.Minute
	}
	grace := 5 * first
	defer c.leavers(t, c.leaver(2, grace))()
	id := c.submit(t, waits, "-w", node, "--mem=64")
	c.waitJob(t, id, "RUNNING")
	c.terminate(t, node)
	c.waitPatient(t, node)
	asked := c.questions(t)
	for after := first; after <= 2*first; after += first {
		<-time.After(first)
		more := 0
		now := c.questions(t)
		for kind, count := range now {
			more += count - asked[kind]
		}
		assert.LessOrEqual(t, more, fewQuestions, "after %v, from %v to %v", after, asked, now)
	}
	c.let(t, id)
	c.left(t, node, grace, agent.ExitOK)
	assert.Equal(t, "COMPLETED", c.job(t, id)["JobState"])
}

func idlePodDeleted(t *testing.T, c *cluster) {
	const node, grace = "node-2", 30 * time.Second
	defer c.leavers(t, c.leaver(2, grace))()
	c.terminate(t, node)
	_, took := c.left(t, node, grace, agent.ExitOK)
	t.Logf("exit %v after SIGTERM", took)
	assert.Less(t, took, slack)
	assert.Nil(t, c.record(t, node))
}

// withEpilog has all nodes run a script after each job, until the end.
func (c *cluster) withEpilog(t *testing.T, script string) (end func()) {
	t.Helper()
	c.run(t, "login", "sh", "-c", `printf %s "$1" > /shared/epilog; chmod 755 /shared/epilog`, "sh", script)
	other := c.Cluster
	other.SlurmConf += "Epilog=/shared/epilog\n"
	c.configure(t, other)
	return func() { c.configure(t, c.Cluster) }
}

// epilogRuns: a job's steps are over, and its epilog still holds the node.
func epilogRuns(t *testing.T, c *cluster) {
	const node, grace = "node-2", 2 * time.Minute
	const epilog = `#!/bin/sh
[ $SLURMD_NODENAME = node-2 ] || exit 0
until [ -e /shared/$SLURM_JOB_ID.end ]; do sleep 0.2; done
date +%s.%N > /shared/$SLURM_JOB_ID.epilog
`
	defer c.withEpilog(t, epilog)()
	defer c.leavers(t, c.leaver(2, grace))()
	id := c.submit(t, "true", "-w", node, "--mem=64")
	until(t, "the epilog runs", func() (bool, string) {
		r := c.record(t, node)
		return r.Is("COMPLETING"), strings.Join(r.State, "+")
	})
	c.terminate(t, node)
	c.let(t, id)
	at, took := c.left(t, node, grace, agent.ExitOK)
	after := at.Sub(told(t, c.run(t, "login", "cat", "/shared/"+id+".epilog")))
	t.Logf("exit %v after the epilog's end, %v after SIGTERM", after, took)
	assert.Less(t, after, slack)
	assert.Equal(t, "COMPLETED", c.job(t, id)["JobState"])
	assert.Nil(t, c.record(t, node))
}

// endsElsewhere: the job's part here is over, before SIGTERM or after it, and slurmctld has the node's record until the
// job has ended on the other node. Without the record, a slurmctld that is configured anew has the job COMPLETING for
// ever.
func endsElsewhere(before bool) func(t *testing.T, c *cluster) {
	const node, grace = "node-2", 2 * time.Minute
	const epilog = `#!/bin/sh
[ $SLURMD_NODENAME = node-1 ] || exit 0
until [ -e /shared/$SLURM_JOB_ID.over ]; do sleep 0.2; done
`
	const step = `touch /shared/$SLURM_JOB_ID.$SLURMD_NODENAME; until [ -e /shared/$SLURM_JOB_ID.end ]; do sleep 0.2; done`
	return func(t *testing.T, c *cluster) {
		defer c.withEpilog(t, epilog)()
		defer c.leavers(t, c.leaver(2, grace))()
		id := c.submit(t, "srun sh -c '"+step+"'", "-N2", "--ntasks-per-node=1", "-w", "node-1,"+node, "--mem=64")
		until(t, "the step runs on both nodes", func() (bool, string) {
			text, _, code, err := c.Exec(t.Context(), "login", "ls", "/shared/"+id+".node-1", "/shared/"+id+"."+node)
			return err == nil && code == 0, text
		})
		if !before {
			c.terminate(t, node)
			c.waitPatient(t, node)
		}
		c.let(t, id)
		if before {
			until(t, "the job is ending on the other node alone", func() (bool, string) {
				here, other := c.record(t, node), c.record(t, "node-1")
				return !here.Is("COMPLETING") && other.Is("COMPLETING"), strings.Join(append(here.State, other.State...), "+")
			})
			c.terminate(t, node)
		}
		until(t, node+" waits for another node", func() (bool, string) {
			s := c.agent(t, node)
			return strings.HasSuffix(s.Reason, "ending on other nodes"), string(s.State) + " " + s.Reason
		})
		c.run(t, sandbox.Slurmctld, "scontrol", "reconfigure")
		c.waitDrained(t, node, reasonTerminate)
		c.run(t, "login", "touch", "/shared/"+id+".over")
		c.waitJob(t, id, "COMPLETED")
		_, took := c.left(t, node, grace, agent.ExitOK)
		t.Logf("exit %v after SIGTERM", took)
		assert.Nil(t, c.record(t, node))
	}
}

// jobsAreSuspended: where memory is not counted, slurmctld shows their node as idle, and it deletes the record when it is
// asked. One is resumed in time and ends first, the other is requeued at the end of the time.
func jobsAreSuspended(t *testing.T, c *cluster) {
	const node, grace = "node-2", 40 * time.Second
	other := c.Cluster
	other.SlurmConf = set("SelectTypeParameters", "CR_Core")(other.SlurmConf)
	c.configure(t, other)
	defer c.configure(t, c.Cluster)
	defer c.leavers(t, c.leaver(2, grace))()
	var ids []string
	for range 2 {
		id := c.submit(t, waits, "-w", node, "--requeue")
		c.waitJob(t, id, "RUNNING")
		ids = append(ids, id)
	}
	resumed, left := ids[0], ids[1]
	c.waitScript(t, node)
	c.run(t, sandbox.Slurmctld, "scontrol", "suspend", resumed+","+left)
	until(t, node+" is idle for slurmctld", func() (bool, string) {
		c.run(t, sandbox.Slurmctld, "sinfo") // slurmctld counts anew when it is asked for all nodes
		r := c.record(t, node)
		return r.Is("IDLE"), strings.Join(r.State, "+")
	})
	c.terminate(t, node)
	c.waitDrained(t, node, reasonTerminate)
	c.waitPatient(t, node)
	c.run(t, sandbox.Slurmctld, "scontrol", "resume", resumed)
	c.let(t, resumed)
	c.waitJob(t, resumed, "COMPLETED")
	_, took := c.left(t, node, grace, agent.ExitOK)
	t.Logf("exit %v after SIGTERM", took)
	job := c.job(t, left)
	assert.Equal(t, []string{"PENDING", "1"}, []string{job["JobState"], job["Restarts"]}, "the job that nobody resumed is requeued")
	c.keptFor(t, node, left)
	c.run(t, sandbox.Slurmctld, "scancel", left)
}

// keptFor: the record stays without a pod, because a pending job names the node.
func (c *cluster) keptFor(t *testing.T, node, job string) {
	t.Helper()
	r := c.record(t, node)
	require.NotNil(t, r, node)
	assert.True(t, r.Drained())
	assert.Contains(t, r.Reason, "slurmlet: the pod is gone, and job "+job+" names the node")
}

// drainedByHand: by "slurmlet drain", and by an admin whose drain nobody lifts.
func drainedByHand(t *testing.T, c *cluster) {
	const node, grace = "node-2", 2 * time.Minute
	defer c.leavers(t, c.leaver(2, grace))()
	id := c.submit(t, waits, "-w", node, "--mem=64")
	c.waitJob(t, id, "RUNNING")
	drained := make(chan string, 1)
	go func() {
		stdout, stderr, code, err := c.Exec(t.Context(), node, "slurmlet", "drain", "-wait", "-reason", "new disk")
		drained <- fmt.Sprint(stdout, stderr, code, err)
	}()
	c.waitDrained(t, node, "slurmlet drain: new disk")
	assert.Empty(t, drained, "it waits for the job")
	assert.Equal(t, "RUNNING", c.job(t, id)["JobState"])
	c.let(t, id)
	assert.Equal(t, "the node is drained: new disk; no job holds it\n0 <nil>", <-drained)
	assert.Equal(t, "COMPLETED", c.job(t, id)["JobState"])
	assert.True(t, c.record(t, node).Drained())
	c.run(t, node, "slurmlet", "resume")
	assert.False(t, c.record(t, node).Drained())
	assert.NotContains(t, c.record(t, node).Reason, "new disk", "slurmctld keeps the reason of a drain until the next job")

	id = c.submit(t, waits, "-w", node, "--mem=64")
	c.waitJob(t, id, "RUNNING")
	c.run(t, sandbox.Slurmctld, "scontrol", "update", "nodename="+node, "state=drain", "reason=x")
	for _, command := range []string{"resume", "drain"} {
		_, stderr, code, err := c.Exec(t.Context(), node, "slurmlet", command)
		require.NoError(t, err)
		assert.Equal(t, agent.ExitFailure, code)
		assert.Contains(t, stderr, "somebody else has drained the node")
	}
	c.waitDrained(t, node, "x")
	c.terminate(t, node)
	c.waitPatient(t, node)
	assert.Equal(t, "x", c.record(t, node).Reason)
	c.let(t, id)
	c.left(t, node, grace, agent.ExitOK)
	assert.Equal(t, "COMPLETED", c.job(t, id)["JobState"])
	assert.Nil(t, c.record(t, node))
}
