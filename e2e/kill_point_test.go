//go:build e2e

package e2e

import (
	"encoding/json"
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

// victim is the node whose agent is killed.
const victim = "node-2"

// killPoint is where an agent is killed with SIGKILL, and with it all that runs in its container.
type killPoint struct {
	name string
	// jobs: one that may be requeued and one that may not run on the node, and have begun a moment ago.
	jobs bool
	// reach brings the agent to the point.
	reach func(t *testing.T, c *cluster)
}

var killPoints = []killPoint{
	{"Starting, and slurmctld cannot be reached", true, func(t *testing.T, c *cluster) {
		require.NoError(t, c.Link(t.Context(), victim, false))
		c.killAgent(t)
		c.waitDoing(t, supervisor.Starting, reaching)
	}},
	{"Starting, before slurmd's READY", true, func(t *testing.T, c *cluster) {
		c.holdSlurmd(t, victim)
		c.killAgent(t)
		c.waitDoing(t, supervisor.Starting, "waiting for the daemon's READY")
	}},
	{"Starting, after slurmd's READY", true, func(t *testing.T, c *cluster) {
		c.hold(t, victim, "before --all*")
		c.killAgent(t)
		c.waitHeld(t, victim)
		c.waitDoing(t, supervisor.Starting, "waiting for the service to be confirmed")
	}},
	{"Starting, and dead jobs have been requeued", true, func(t *testing.T, c *cluster) {
		c.hold(t, victim, "after requeue*")
		c.killAgent(t)
		c.waitHeld(t, victim)
	}},
	{"Starting, and the node is DOWN for dead jobs", true, func(t *testing.T, c *cluster) {
		c.hold(t, victim, "after update*state=down*")
		c.killAgent(t)
		c.waitHeld(t, victim)
	}},
	{"Ready and idle", false, func(*testing.T, *cluster) {}},
	{"Ready, with jobs", true, func(*testing.T, *cluster) {}},
	{"Reloading", true, func(t *testing.T, c *cluster) {
		c.hold(t, victim, "before --all*")
		c.run(t, sandbox.Slurmctld, "scontrol", "reconfigure")
		c.waitHeld(t, victim)
		c.waitDoing(t, supervisor.Reloading, "")
	}},
	{"replacing slurmd, which hangs", true, func(t *testing.T, c *cluster) { c.outdate(t) }},
	{"replacing slurmd, which hangs, on the way down", true, func(t *testing.T, c *cluster) {
		c.outdate(t)
		c.terminate(t, victim)
		c.waitDoing(t, supervisor.Stopping, replacing)
	}},
	{"reaching slurmctld, and slurmd is dead", true, func(t *testing.T, c *cluster) { c.loseSlurmd(t, supervisor.Starting) }},
	{"reaching slurmctld, and slurmd is dead, on the way down", true, func(t *testing.T, c *cluster) {
		c.loseSlurmd(t, supervisor.Starting)
		c.terminate(t, victim)
		c.waitDoing(t, supervisor.Stopping, reaching)
	}},
	{"Stopping, before the drain", true, func(t *testing.T, c *cluster) { c.stopUntil(t, "before update*state=drain*") }},
	{"Stopping, after the drain", true, func(t *testing.T, c *cluster) { c.stopUntil(t, "after update*state=drain*") }},
	{"Stopping, waiting for steps", true, func(t *testing.T, c *cluster) {
		c.terminate(t, victim)
		c.waitPatient(t, victim)
	}},
	{"Stopping, after a requeue", true, func(t *testing.T, c *cluster) { c.stopUntil(t, "after requeue*") }},
	{"Stopping, after the node was set DOWN", true, func(t *testing.T, c *cluster) { c.stopUntil(t, "after update*state=down*") }},
	{"Stopping, after the record's deletion", false, func(t *testing.T, c *cluster) { c.stopUntil(t, "after delete*") }},
}

// What the agent says that it does.
const (
	replacing = "restarting the daemon"
	reaching  = "reaching what the daemon needs"
)

// outdate has the agent restart a slurmd that does not end, for a configuration that it
// seems to have missed.
func (c *cluster) outdate(t *testing.T) {
	t.Helper()
	c.run(t, victim, "pkill", "-STOP", "-x", "slurmd")
	c.run(t, victim, "sh", "-c", "echo '# not of slurmctld' >> /var/spool/slurmd/conf-cache/slurm.conf")
	until(t, "the agent has noticed", func() (bool, string) {
		s, said := c.inside(t, victim)
		return s.State == supervisor.Reloading && s.Doing == replacing, fmt.Sprintf("%s\nslurmctld's agent: %+v", said, c.agent(t, sandbox.Slurmctld).Conf)
	})
}

// loseSlurmd kills slurmd while slurmctld is cut off.
func (c *cluster) loseSlurmd(t *testing.T, state supervisor.Phase) {
	t.Helper()
	require.NoError(t, c.Link(t.Context(), victim, false))
	c.run(t, victim, "pkill", "-9", "-x", "slurmd")
	c.waitDoing(t, state, reaching)
}

// resizing needs a cgroup with a limit that can change.
var resizing = killPoint{"Resizing", true, func(t *testing.T, c *cluster) {
	require.NoError(t, c.Resize(t.Context(), victim, 2, 640<<20))
	until(t, "it waits for its jobs", func() (bool, string) {
		s := c.agent(t, victim)
		return s.State == supervisor.Resizing && strings.Contains(s.Reason, "jobs run on it"), string(s.State) + " " + s.Reason
	})
}}

func agentKilledResizing(t *testing.T, c *cluster) { c.killAt(t, resizing) }

// agentKilledInEpilog: slurmctld never hears of a requeued job's end, and a job of the same
// container is dead.
func agentKilledInEpilog(t *testing.T, c *cluster) {
	const epilog = `#!/bin/sh
[ $SLURMD_NODENAME != node-2 ] || [ ! -e /shared/slow ] || { touch /shared/slow.$SLURM_JOB_ID; sleep 600; }
`
	c.run(t, "login", "sh", "-c", `printf %s "$1" > /shared/epilog; chmod 755 /shared/epilog; touch /shared/slow`, "sh", epilog)
	other := c.Cluster
	// slurmctld itself ends the dead job when slurmd registers without it more than BatchStartTimeout and MessageTimeout after
	// its start. Then no agent does, and of the requeued one slurmctld asks again after 50 to 110 s only.
	other.SlurmConf += "Epilog=/shared/epilog\nBatchStartTimeout=60\n"
	c.configure(t, other)
	defer c.configure(t, c.Cluster)
	c.killAt(t, killPoint{"Stopping, in the epilog of a requeued job", true, func(t *testing.T, c *cluster) {
		c.stopUntil(t, "after requeue*")
		until(t, "the epilog runs", func() (bool, string) {
			out, _, _, err := c.Exec(t.Context(), "login", "sh", "-c", "ls /shared/slow.*")
			return out != "", fmt.Sprint(err)
		})
		c.run(t, "login", "rm", "/shared/slow")
		// slurmctld's scheduler says when it expects the next start.
		until(t, "the job has a next start", func() (bool, string) {
			start := c.jobs(t)[strings.TrimPrefix(strings.TrimSpace(c.run(t, "login", "sh", "-c", "echo /shared/slow.*")), "/shared/slow.")]["StartTime"]
			return start != "" && start != "Unknown", start
		})
	}})
}

// killCases: whenever the agent dies, the next container of its pod puts Slurm's view right.
func killCases() []testCase {
	cases := []testCase{{"the agent killed: Ready, with an old job and a young one", agentKilledWithAnOldJob, either}, {"the agent killed: Stopping, in the epilog of a requeued job", agentKilledInEpilog, either}}
	for _, p := range killPoints {
		cases = append(cases, testCase{"the agent killed: " + p.name, func(t *testing.T, c *cluster) { c.killAt(t, p) }, either})
	}
	return cases
}

// soon is how long Slurm's view of a node may be wrong after its container has
// started again; the tests share a busy machine, and a connection that was tried while
// the pod was cut off is tried again by TCP after up to 8 s only.
const soon, soonEnough = 10 * time.Second, 40 * time.Second

// killGrace has the jobs requeued 14 s, and the node set DOWN 21.5 s after SIGTERM.
const killGrace = 30 * time.Second

func (c *cluster) victim() sandbox.PodSpec {
	spec := holdable(c.leaver(2, killGrace))
	spec.Restart = "Always"
	spec.Env["SLURMLET_LOG_LEVEL"] = "debug"
	return spec
}

func (c *cluster) killAt(t *testing.T, p killPoint) {
	defer c.leavers(t, c.victim())()
	defer c.free(t)
	var jobs []string
	if strings.HasPrefix(p.name, "replacing") {
		// The agent watches slurmd's copy of the configuration if it is there when it asks for news.
		c.killAgent(t)
		c.waitReady(t, victim)
	}
	if p.jobs {
		jobs = c.begin(t, "--requeue", "--no-requeue")
	}
	p.reach(t, c)
	c.killAgent(t)
	c.free(t)
	c.isRight(t, jobs)
}

// free takes away what held or cut off the pod.
func (c *cluster) free(t *testing.T) {
	t.Helper()
	c.letGo(t)
	require.NoError(t, c.Link(t.Context(), victim, true))
}

// begin starts a job on the node for each option, which tells how often it began and ended.
func (c *cluster) begin(t *testing.T, options ...string) (ids []string) {
	t.Helper()
	const script = `f=/shared/$SLURM_JOB_ID.runs; echo begin >> $f; until [ -e /shared/$SLURM_JOB_ID.end ]; do sleep 0.2; done; echo end >> $f`
	for _, option := range options {
		ids = append(ids, c.submit(t, script, option, "-w", victim, "--mem=64"))
	}
	for _, id := range ids {
		until(t, "job "+id+" has begun", func() (bool, string) {
			out, _, _, err := c.Exec(t.Context(), "login", "cat", "/shared/"+id+".runs")
			return out == "begin\n", fmt.Sprint(out, err)
		})
	}
	return ids
}

// killAgent ends the container, and waits for the next.
func (c *cluster) killAgent(t *testing.T) {
	t.Helper()
	before := c.pod(t, victim).Restarts
	require.NoError(t, c.Kill(t.Context(), victim, "KILL"))
	until(t, victim+" is started again", func() (bool, string) {
		p := c.pod(t, victim)
		return p.Restarts > before && p.State == sandbox.Running, p.State
	})
}

func (c *cluster) waitDoing(t *testing.T, state supervisor.Phase, doing string) {
	t.Helper()
	until(t, fmt.Sprintf("%s is %s, %s", victim, state, doing), func() (bool, string) {
		s, said := c.inside(t, victim)
		return s.State == state && (s.Doing == doing || doing == ""), said
	})
}

// inside is what the agent in a pod tells there, where no network is needed.
func (c *cluster) inside(t *testing.T, pod string) (s agent.Status, said string) {
	t.Helper()
	stdout, stderr, _, err := c.Exec(t.Context(), pod, "slurmlet", "status", "-o", "json")
	require.NoError(t, err)
	_ = json.Unmarshal([]byte(stdout), &s) // it may be about to start
	return s, stdout + stderr
}

// stopUntil ends the pod, and holds its agent on the way down.
func (c *cluster) stopUntil(t *testing.T, pattern string) {
	t.Helper()
	c.hold(t, victim, pattern)
	c.terminate(t, victim)
	c.waitHeld(t, victim)
}

// isRight: soon the node takes jobs, none is said to run on it that has died,
// and each of them runs again or says that it was lost.
func (c *cluster) isRight(t *testing.T, jobs []string) {
	t.Helper()
	started := time.Now()
	until(t, "Slurm's view is right", func() (bool, string) {
		r := c.record(t, victim)
		if r == nil || !r.Is("IDLE") || r.Drained() || r.Busy() || !r.Responding() {
			return false, fmt.Sprint(r)
		}
		all := c.jobs(t)
		for _, id := range jobs {
			if state := all[id]["JobState"]; state != "PENDING" && state != "NODE_FAIL" {
				return false, id + " is " + state
			}
		}
		return true, ""
	})
	took := time.Since(started)
	t.Logf("right %v after the container's start (%v are wanted)", took, soon)
	if !assert.Less(t, took, soonEnough) {
		log, err := c.Logs(t.Context(), victim)
		t.Log(err, log)
		t.Log(c.Logs(t.Context(), sandbox.Slurmctld))
	}
	c.waitReady(t, victim)
	all := c.jobs(t)
	for _, id := range jobs {
		c.endsOnce(t, all[id])
	}
	assert.Equal(t, victim+"\n", c.as(t, "alice", "login", "srun", "-w", victim, "--mem=64", "hostname"))
}

// endsOnce: a job that was requeued runs once more and completes, the other does not.
func (c *cluster) endsOnce(t *testing.T, job map[string]string) {
	t.Helper()
	id, state, runs := job["JobId"], "NODE_FAIL", "begin\n"
	if job["Requeue"] == "1" {
		assert.Equal(t, []string{"PENDING", "1"}, []string{job["JobState"], job["Restarts"]}, job[""])
		c.let(t, id)
		c.run(t, sandbox.Slurmctld, "scontrol", "update", "jobid="+id, "starttime=now+3")
		state, runs = "COMPLETED", "begin\nbegin\nend\n"
	}
	job = c.waitJob(t, id, state)
	assert.Equal(t, runs, c.run(t, "login", "cat", "/shared/"+id+".runs"), job)
}

// agentKilledWithAnOldJob: an old job, older than BatchStartTimeout, is missed by
// slurmctld itself as slurmd registers, a young one by the agent.
func agentKilledWithAnOldJob(t *testing.T, c *cluster) {
	defer c.leavers(t, c.victim())()
	old := c.begin(t, "--requeue")
	until(t, "the job is 25 s old", func() (bool, string) {
		age := c.job(t, old[0])["RunTime"]
		return age >= "00:00:25", age
	})
	young := c.begin(t, "--no-requeue")
	c.killAgent(t)
	c.isRight(t, append(old, young...))
}
