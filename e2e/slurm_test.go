//go:build e2e

package e2e

import (
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
	"github.com/slurmlet/slurmlet/internal/slurmctld/savedstate"
)

// TestSlurm has what does not depend on the limits of pods. It runs natively on every machine.
func TestSlurm(t *testing.T) {
	first := []testCase{ // on a fresh cluster, because agents ask again for a while after an edit
		{"a drain that lasts asks nobody", longDrain, either},
		{"a pod deleted: its job ends first", jobEndsFirst, both},
	}
	slow := append(inTime([]testCase{{"slurmctld that hangs in a reconfigure", hungSlurmctld, both}}), []testCase{ // they wait for Slurm's own minute
		{"slurmctld stops with a job's launch still to be sent", launchIsLost, either},
		{"slurmd killed with a job's launch under way", launchDies, either},
	}...)
	eachVersion(t, bed{name: "e2e", clusters: 5, noLimits: true, start: up}, slices.Concat(first, slow, reloadCases, drainCases, killCases(), loginCases, neighbourCases, []testCase{
		{"slurm.conf is read as Slurm reads it", configurationIsReadAsSlurmDoes, both},
		{"slurm.conf is refused as Slurm refuses it", configurationIsRefusedAsSlurmDoes, both},
		{"slurmctld stops in order and knows its jobs afterwards", slurmctldStops, either},
		{"slurmctld killed: it starts again in its container", slurmctldKilled, either},
		{"slurmd killed: the job goes on", slurmdKilled, both},
		{"20 reconfigures", reconfigures(20), either},
		{"slurmd waits for slurmctld", slurmdWaits, either},
		{"labels and annotations", described, both},
		{"sssd on a node", sssdOnANode, both},
		{"a directory's users log in and run jobs", directorysUsers, either},
		{"the jobs and sessions of those end whom the directory locks or no longer has", leaversOfTheDirectory, either},
		{"names that the agent takes are taken by Slurm", names, both},
		{"hostlists as scontrol reads them", hostlists, both},
		{"srun --container without oci.conf", uncontained, both},
		{"kubectl slurm says why a node gets no jobs, and how that ends", whyNodesAreOut, either},
	}))
}

var longCases = []testCase{
	{"reconfigures, one after the other", reconfigures(5), only2411}, // which refuses the second where it looks for systemd
	{"a pod of another size after a crash with a job", resizedAfterACrash, either},
	{"pods with CPUs of their own", podsWithCPUs, either},
	{"grace shorter than the jobs", graceTooShort, both}, // its nodes have three CPUs
	{"a slurm.conf of three lines", threeLines, both},    // Slurm's own defaults want cgroups
}

// TestLimits has what depends on cgroup v2 with its controllers. It runs in User-Mode Linux where a machine has them on
// cgroup v1, many times slower.
func TestLimits(t *testing.T) {
	longest := inTime([]testCase{{"nodes that run with another configuration", anotherSet, only2411}})
	eachVersion(t, bed{name: "limits", clusters: rounds(1, 2), start: up}, slices.Concat(longest, cgroupCases, memoryCases, inTime(systemdCases), inTime(longCases), []testCase{
		{"nodes have the size of their pods", nodesHaveTheirPodsSize, both},
		{"jobs run", jobsRun, both},
		{"a job in a container is in its step's cgroup, and leaves nothing", containedJobs, either},
		{"a job's own directories count as its memory, and are gone after it", privateJobs, either},
		{"a job's own processes are signalled, ended and limited as ever", privateProcesses, either},
		{"a pod deleted: its job ends first", jobEndsFirst, either},
		{"a job over its memory is killed and the node lives", jobOverItsMemory, either},
		{"a job over the container's memory is killed and the node lives", jobOverTheContainersMemory, either},
		{"what the jobs use is told as the kernel counts it", usageIsTold, either},
		{"ssh into a node is for those with a job there", sshIntoANode, either},
		{"a user over a login pod's limits: the others live", usersShareALoginPod, either},
		{"slurmstepd killed: the job ends and says why", slurmstepdKilled, either},
		{"slurmd killed: the job goes on", slurmdKilled, either},
		{"a pod of another size", resized, either},
		{"a pod resized in place", resizedInPlace, either},
		{"a pod with slurmd alone", stockSlurmd, either},
		{"the agent killed while its pod is resized", agentKilledResizing, either},
		{"GPUs", gpus, either},
	}))
}

func nodesHaveTheirPodsSize(t *testing.T, c *cluster) {
	for node, want := range map[string]struct {
		cpus   int
		memory int64
	}{"node-0": {1, 448}, "node-1": {2, 704}} {
		record := c.record(t, node)
		require.NotNil(t, record)
		assert.Equal(t, want.cpus, record.CPUs, node)
		assert.Equal(t, want.cpus, record.CPUsEffective, node)
		assert.Equal(t, want.memory, record.RealMemory, node)
		status := c.agent(t, node)
		assert.Equal(t, "0-2", status.Node.Limits.Online.String(), "the machine has more CPUs than any pod")
		assert.Equal(t, "/sys/fs/cgroup/memory.max", status.Node.Limits.Memory.Source)
		assert.Equal(t, "/sys/fs/cgroup/cpu.max", status.Node.Limits.Quota.Source)
		assert.Contains(t, status.Node.Cgroup.Controllers, "memory", status.Node.Cgroup.Error)
	}
}

func jobsRun(t *testing.T, c *cluster) {
	out := c.as(t, "alice", "login", "srun", "-N2", "hostname")
	assert.ElementsMatch(t, []string{"node-0", "node-1"}, strings.Fields(out))
	id := c.submit(t, "id -un")
	c.waitJob(t, id, "COMPLETED")
	assert.Equal(t, "alice\n", c.run(t, "login", "cat", "/shared/"+id+".out"))
}

func slurmdKilled(t *testing.T, c *cluster) {
	id := c.submit(t, waits+"; echo done", "-w", "node-0", "--no-requeue")
	c.waitJob(t, id, "RUNNING")
	c.waitScript(t, "node-0")
	before := c.agent(t, "node-0")
	c.run(t, "node-0", "kill", "-9", strconv.Itoa(before.Main.PID))
	until(t, "slurmd is back", func() (bool, string) {
		s := c.agent(t, "node-0")
		return s.State == supervisor.Ready && s.Main.PID != before.Main.PID, string(s.State)
	})
	assert.Equal(t, before.Restarts+1, c.agent(t, "node-0").Restarts)
	c.let(t, id) // a slurmstepd that ends without slurmd complains in the job's output
	job := c.waitJob(t, id, "COMPLETED")
	assert.Equal(t, "0", job["Restarts"])
	assert.Equal(t, "0:0", job["ExitCode"])
	assert.Regexp(t, `^[0-9.]+\ndone\n$`, c.run(t, "login", "cat", "/shared/"+id+".out"))
}

// slurmdsMinute is longer than the sandbox's PrologEpilogTimeout.
const slurmdsMinute = 75 * time.Second

func reconfigures(times int) func(t *testing.T, c *cluster) {
	return func(t *testing.T, c *cluster) { c.reconfigures(t, times) }
}

// reconfigure tells of a slurmctld that does not answer which threads and connections it has: one of 24.11 hung twice
// between "Reconfigure signal" and "Saving all slurm state", where it waits for what it has accepted.
const reconfigure = `scontrol reconfigure || {
	code=$?
	for pid in $(pidof slurmctld); do cat /proc/$pid/task/*/comm | sort | uniq -c; done
	ss -tn
	exit $code
}`

// reconfigures: the agents follow slurmctld and slurmds from process to process. Before it hands over, slurmd waits for
// its requests to slurmctld: those to an address that slurmctld has left take a minute (PrologEpilogTimeout), during which
// the agent has nothing to follow. slurmctld asks each slurmd once and does not ask again.
func (c *cluster) reconfigures(t *testing.T, times int) {
	daemons, restarts := map[string]string{sandbox.Slurmctld: "slurmctld", "node-0": "slurmd", "node-1": "slurmd"}, map[string]int{}
	for pod := range daemons {
		restarts[pod] = c.pod(t, pod).Restarts
	}
	for range times {
		before, told := map[string]int{}, map[string]int{}
		for pod, daemon := range daemons {
			before[pod], told[pod] = c.agent(t, pod).Main.PID, len(c.lines(t, pod, daemon))
		}
		c.run(t, sandbox.Slurmctld, "sh", "-c", reconfigure)
		asked := time.Now()
		for pod, daemon := range daemons {
			within(t, 2*limit, pod+" follows the new main process", func() (bool, string) {
				if time.Since(asked) > slurmdsMinute {
					c.run(t, sandbox.Slurmctld, "sh", "-c", reconfigure)
					asked = time.Now()
				}
				s := c.agent(t, pod)
				return s.State == supervisor.Ready && s.Main.PID != before[pod], string(s.State) + " " + s.Reason
			})
			require.Greater(t, len(c.lines(t, pod, daemon)), told[pod], "the daemon's log in %s goes on", pod)
		}
	}
	for pod, daemon := range daemons {
		main := strconv.Itoa(c.agent(t, pod).Main.PID)
		assert.Equal(t, daemon+"\n", c.run(t, pod, "cat", "/proc/"+main+"/comm"))
		assert.Equal(t, restarts[pod], c.pod(t, pod).Restarts)
		c.reaps(t, pod)
	}
	// The present slurmd's lines are in the log too.
	told := len(c.lines(t, "node-1", "slurmd"))
	c.as(t, "alice", "login", "srun", "-w", "node-1", "true")
	until(t, "slurmd's log goes on", func() (bool, string) {
		now := c.lines(t, "node-1", "slurmd")
		return len(now) > told, strconv.Itoa(len(now))
	})
}

// reaps waits until PID 1 of the pod has reaped all processes that have ended: each is a zombie for a moment.
func (c *cluster) reaps(t *testing.T, pod string) {
	t.Helper()
	until(t, "no process of "+pod+" is a zombie", func() (bool, string) {
		out := c.run(t, pod, "ps", "-eo", "stat=,pid=,args=")
		var zombies []string
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "Z") {
				zombies = append(zombies, line)
			}
		}
		return len(zombies) == 0, strings.Join(zombies, "")
	})
}

func slurmctldStops(t *testing.T, c *cluster) {
	id := c.submit(t, "true", "--hold")
	require.NoError(t, c.Restart(t.Context(), sandbox.Slurmctld, grace))
	c.waitReady(t, sandbox.Slurmctld)
	assert.Equal(t, "PENDING", c.job(t, id)["JobState"])
	assert.Equal(t, "Exited", lastState(t, c, sandbox.Slurmctld))
	c.run(t, sandbox.Slurmctld, "scontrol", "release", id)
	c.waitJob(t, id, "COMPLETED")
}

// lastState is the last state before the present life that the agent has logged.
func lastState(t *testing.T, c *cluster, pod string) string {
	last := ""
	for _, line := range c.lines(t, pod, agent.Source) {
		if line["msg"] == "exit" {
			assert.EqualValues(t, 0, line["status"])
		}
		if state, ok := line["state"].(string); ok && line["msg"] == "state" && state == string(supervisor.Exited) {
			last = state
		}
	}
	return last
}

// launchIsLost: a job is RUNNING for slurmctld, and its node has never heard of it. Slurm asks what runs there
// after up to twenty minutes.
func launchIsLost(t *testing.T, c *cluster) {
	require.NoError(t, c.Link(t.Context(), "node-0", false))
	defer func() { assert.NoError(t, c.Link(t.Context(), "node-0", true)) }()
	id := c.submit(t, "echo run >> /shared/lost", "-w", "node-0", "--requeue")
	c.waitJob(t, id, "RUNNING")
	require.NoError(t, c.Restart(t.Context(), sandbox.Slurmctld, grace))
	c.waitReady(t, sandbox.Slurmctld)
	require.NoError(t, c.Link(t.Context(), "node-0", true))
	until(t, "slurmctld knows that the job does not run", func() (bool, string) {
		job := c.job(t, id)
		return job["Restarts"] == "1" || job["JobState"] == "COMPLETED", job["JobState"] // or the launch was not lost, after all
	})
	c.waitReady(t, "node-0", "node-1", "login")
	c.completesAnew(t, id)
	assert.Equal(t, "run\n", c.run(t, "login", "cat", "/shared/lost"), "once")
}

// launchDies: slurmd has taken the launch, and dies before there is a slurmstepd. Slurm asks what runs there after up to
// twenty minutes.
func launchDies(t *testing.T, c *cluster) {
	const prolog = "#!/bin/sh\n[ $SLURM_JOB_USER = alice ] && [ -e /shared/slow ] && sleep 1000\nexit 0\n"
	c.run(t, "login", "sh", "-c", `printf %s "$1" > /shared/prolog; chmod 755 /shared/prolog; touch /shared/slow`, "sh", prolog)
	other := c.Cluster
	other.SlurmConf += "Prolog=/shared/prolog\n"
	c.configure(t, other)
	defer c.configure(t, c.Cluster)
	id := c.submit(t, "echo run >> /shared/launched", "-w", "node-0", "--requeue")
	until(t, "the prolog runs", func() (bool, string) {
		out := c.run(t, "node-0", "ps", "-eo", "args")
		return strings.Contains(out, "/shared/prolog"), out
	})
	main := c.agent(t, "node-0").Main.PID
	c.run(t, "login", "rm", "/shared/slow")
	c.run(t, "node-0", "kill", "-9", strconv.Itoa(main))
	c.run(t, "node-0", "pkill", "-9", "-f", "/shared/prolog")
	c.waitReady(t, "node-0")
	c.completesAnew(t, id)
	assert.Equal(t, "run\n", c.run(t, "login", "cat", "/shared/launched"), "once")
}

func slurmctldKilled(t *testing.T, c *cluster) {
	until(t, "no slurmd has anything to tell slurmctld at this address", func() (bool, string) {
		completing := c.run(t, sandbox.Slurmctld, "squeue", "--noheader", "--states=completing")
		return completing == "", completing
	})
	held := c.submit(t, "true", "--hold")
	before, containers := c.agent(t, sandbox.Slurmctld), c.pod(t, sandbox.Slurmctld).Restarts
	nodes := map[string]int{"node-0": c.agent(t, "node-0").Main.PID, "node-1": c.agent(t, "node-1").Main.PID}
	c.run(t, sandbox.Slurmctld, "kill", "-9", strconv.Itoa(before.Main.PID))
	until(t, "slurmctld is back", func() (bool, string) {
		s := c.agent(t, sandbox.Slurmctld)
		return s.State == supervisor.Ready && s.Main.PID != before.Main.PID, string(s.State)
	})
	until(t, "records that the crash has brought back are gone", func() (bool, string) {
		back := slices.DeleteFunc(strings.Fields(c.run(t, sandbox.Slurmctld, "sinfo", "--Node", "--noheader", "--format=%N")),
			func(name string) bool { return nodes[name] != 0 })
		for _, name := range back { // slurmctld saves a deletion with its nodes, every five minutes
			for _, command := range []string{"scontrol update state=DOWN reason=gone nodename=", "scontrol delete nodename="} {
				_, _, _, _ = c.Exec(t.Context(), sandbox.Slurmctld, strings.Fields(command+name)...)
			}
		}
		return len(back) == 0, strings.Join(back, " ")
	})
	after := c.agent(t, sandbox.Slurmctld)
	assert.Equal(t, before.Restarts+1, after.Restarts)
	assert.Contains(t, after.LastEnd.Text, "killed by SIGKILL")
	assert.Equal(t, containers, c.pod(t, sandbox.Slurmctld).Restarts)
	until(t, "the job is known or reported", func() (bool, string) {
		lost := c.agent(t, sandbox.Slurmctld).LostJobs.Lost
		if slices.ContainsFunc(lost, func(job savedstate.Job) bool { return strconv.Itoa(int(job.ID)) == held }) {
			return true, ""
		}
		out, _, _, err := c.Exec(t.Context(), sandbox.Slurmctld, "scancel", held)
		return err == nil, out
	})
	next, _ := strconv.Atoi(c.submit(t, "true"))
	last, _ := strconv.Atoi(held)
	assert.Greater(t, next, last+500, "an id that is sure to be free")
	c.waitJob(t, strconv.Itoa(next), "COMPLETED")
	for node, pid := range nodes {
		assert.Equal(t, pid, c.agent(t, node).Main.PID, "FirstJobId is no other configuration")
	}
	require.NoError(t, c.Restart(t.Context(), sandbox.Slurmctld, grace))
	c.waitReady(t, sandbox.Slurmctld, "node-0", "node-1")
	assert.Empty(t, c.run(t, sandbox.Slurmctld, "sh", "-c", "grep ^FirstJobId /run/slurmlet/conf/slurm.conf || true"), "slurmctld has saved a higher id")
}

func slurmdWaits(t *testing.T, c *cluster) {
	require.NoError(t, c.Delete(t.Context(), sandbox.Slurmctld, grace))
	// A crash: with SIGTERM the agent would wait for slurmctld.
	require.NoError(t, c.Restart(t.Context(), "node-0", 0))
	restarts := c.pod(t, "node-0").Restarts
	until(t, "the agent tells what it waits for", func() (bool, string) {
		s := c.agent(t, "node-0")
		return strings.Contains(s.Reason, "cannot reach slurmctld"), s.Reason
	})
	assert.Equal(t, supervisor.Starting, c.agent(t, "node-0").State)
	assert.Nil(t, c.agent(t, "node-0").Main, "no slurmd without a slurmctld")
	require.NoError(t, c.Create(t.Context(), c.Slurmctld()))
	c.waitReady(t, sandbox.Slurmctld, "node-0")
	assert.Equal(t, restarts, c.pod(t, "node-0").Restarts, "no crash loop")
	assert.Equal(t, 0, c.agent(t, "node-0").Restarts)
}

// resize makes node-0 anew with another size and back.
func resize(t *testing.T, c *cluster, end func()) {
	end()
	other := c.Node(0)
	other.CPU, other.Memory = 2, 640<<20
	other.Env["SLURMLET_CPU_LIMIT"], other.Env["SLURMLET_MEMORY_LIMIT"] = "2000", strconv.Itoa(640<<20)
	require.NoError(t, c.Create(t.Context(), other))
	// A crashed pod's job ends only when slurmctld sends its end again, to the new
	// pod: "Resending TERMINATE_JOB", more than a minute later.
	require.NoError(t, c.WaitReady(t.Context(), 2*limit, t.Logf, "node-0"))
	record := c.record(t, "node-0")
	assert.Equal(t, []any{2, int64(576)}, []any{record.CPUs, record.RealMemory})
	assert.False(t, record.Drained(), record.Reason)

	require.NoError(t, c.Delete(t.Context(), "node-0", grace))
	require.NoError(t, c.Create(t.Context(), c.Node(0)))
	c.waitReady(t, "node-0")
	record = c.record(t, "node-0")
	assert.Equal(t, []any{1, int64(448)}, []any{record.CPUs, record.RealMemory})
	assert.False(t, record.Drained(), record.Reason)
	assert.Equal(t, "node-0\n", c.as(t, "alice", "login", "srun", "-w", "node-0", "hostname"))
}

// resized: the pod has crashed, or its agent would have deleted the record.
func resized(t *testing.T, c *cluster) {
	resize(t, c, func() { require.NoError(t, c.Delete(t.Context(), "node-0", 0)) })
}

// resizedAfterACrash: the record holds a job whose processes have died with the
// pod. Only the new slurmd can tell slurmctld; then the record is free.
func resizedAfterACrash(t *testing.T, c *cluster) {
	id := c.submit(t, "sleep 1000", "-w", "node-0", "--requeue")
	// A younger job is not missed by slurmctld before slurmd's next registration,
	// which may be minutes away (BatchStartTimeout and MessageTimeout, 10 s each).
	until(t, "the job is 25 s old", func() (bool, string) {
		age := c.job(t, id)["RunTime"]
		return age >= "00:00:25", age
	})
	resize(t, c, func() { require.NoError(t, c.Delete(t.Context(), "node-0", 0)) })
	assert.Equal(t, "PENDING", c.job(t, id)["JobState"], "the job was not lost")
	c.run(t, sandbox.Slurmctld, "scancel", id)
}

func names(t *testing.T, c *cluster) {
	for _, name := range []string{"n", "0", "a.b-c_d", "UPPER", strings.Repeat("x", 63)} {
		spec := c.Node(2)
		spec.Env["SLURMLET_NODE_NAME"] = name
		require.NoError(t, c.Create(t.Context(), spec))
		c.waitReady(t, spec.Name)
		require.NotNil(t, c.record(t, name), name)
		require.NoError(t, c.Delete(t.Context(), spec.Name, grace))
		assert.Nil(t, c.record(t, name), name)
	}
}
