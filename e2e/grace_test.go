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

// twice is the beginning of a job that writes where each of its runs is, and
// ends at once in the second.
const twice = `runs=/shared/$SLURM_JOB_ID.runs; echo $SLURM_JOB_NODELIST >> $runs; [ $(wc -l < $runs) = 1 ] || exit 0; `

// graceTooShort: jobs of all kinds that do not end in time, on three pods that
// are deleted at once. 80 s of grace: jobs are requeued after 44 s, their
// processes killed after 54 s, and the nodes set DOWN after 64 s, with time
// for a dozen questions in between on a busy machine.
func graceTooShort(t *testing.T, c *cluster) {
	const grace = 80 * time.Second
	signals := c.leaver(2, grace)
	signals.Env["SLURMLET_JOB_SIGNAL"] = "B:USR1@5"
	defer c.leavers(t, signals, c.leaver(3, grace), c.leaver(4, grace))()

	// What may run again asks for no node by name: Slurm holds a job that asks for
	// one that is deleted. Instead, the nodes fill up one after the other.
	failed := []string{c.submit(t, "sleep 1000", "-J", "batch", "-w", "node-3", "--mem=64", "--no-requeue"), "without-step", "with-step"}
	allocations := []<-chan string{c.allocate(t, "without-step", "node-3", "sleep"), c.allocate(t, "with-step", "node-3", "srun", "sleep")}
	c.waitJobs(t, "RUNNING", failed...)
	submit := func(script string, options ...string) string {
		return c.submit(t, twice+script, append(options, "--requeue", "--mem=64")...)
	}
	c.close(t, "node-[0-1,4]")
	saves := submit(`trap "echo saved" USR1; while :; do sleep 0.5; done`)
	requeued := []string{saves, submit(`trap "" USR1; srun sleep 1000`), submit(`trap "" USR1 TERM; while :; do sleep 1; done`)}
	c.waitJobs(t, "RUNNING", requeued...)
	c.open(t, "node-[1,4]")
	wide := submit(`srun sleep 1000`, "-N2")
	c.waitJobs(t, "RUNNING", wide)
	c.close(t, "node-1")
	array := submit(`sleep 1000`, "--array=0-2")
	requeued = append(requeued, wide, array+"_0", array+"_1")
	c.waitJobs(t, "RUNNING", requeued...)

	c.terminate(t, "node-2", "node-3", "node-4")
	for _, node := range []string{"node-2", "node-4", "node-3"} {
		_, took := c.left(t, node, grace, agent.ExitOK)
		t.Logf("%s: exit %v after SIGTERM", node, took)
		assert.Nil(t, c.record(t, node))
	}
	c.haveFailed(t, "node-3", failed...)
	for _, over := range allocations {
		t.Log(<-over)
	}
	assert.Contains(t, c.run(t, "login", "cat", "/shared/"+saves+".out"), "saved", "the signal came")
	third := c.jobs(t)[array+"_2"]
	assert.Equal(t, []string{"PENDING", "0"}, []string{third["JobState"], third["Restarts"]}, "nobody touched it")
	c.run(t, sandbox.Slurmctld, "scancel", array+"_2")
	c.open(t, "node-[0-1]")
	c.wereRequeued(t, requeued...)
}

// allocate runs salloc with a command that sleeps, and tells when it returns.
func (c *cluster) allocate(t *testing.T, name, node string, command ...string) <-chan string {
	t.Helper()
	returned := make(chan string, 1)
	go func() {
		args := append([]string{"salloc", "-K", "-J", name, "-w", node, "--mem=64"}, append(command, "1000")...)
		stdout, stderr, code, err := c.ExecAs(t.Context(), "login", sandbox.How{User: "alice", Dir: "/tmp"}, args...)
		returned <- fmt.Sprintf("%s: status %d, %v: %s%s", name, code, err, stdout, stderr)
	}()
	return returned
}

// jobs are all that slurmctld knows: by number, by name, and tasks of an array
// as 5_1. The whole line is under the empty key.
func (c *cluster) jobs(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for line := range strings.Lines(c.run(t, sandbox.Slurmctld, "scontrol", "--oneliner", "show", "jobs")) {
		job := map[string]string{"": line}
		for field := range strings.FieldsSeq(line) {
			key, value, _ := strings.Cut(field, "=")
			job[key] = value
		}
		all[job["JobId"]], all[job["JobName"]] = job, job
		if array := job["ArrayJobId"]; array != "" {
			all[array+"_"+job["ArrayTaskId"]] = job
		}
	}
	return all
}

// waitJobs waits until all of these are in a state.
func (c *cluster) waitJobs(t *testing.T, state string, names ...string) map[string]map[string]string {
	t.Helper()
	var all map[string]map[string]string
	until(t, fmt.Sprintf("the jobs %v are %s", names, state), func() (bool, string) {
		all = c.jobs(t)
		for _, name := range names {
			if all[name]["JobState"] != state {
				return false, fmt.Sprint(name, ": ", all[name][""])
			}
		}
		return true, ""
	})
	return all
}

// close keeps new jobs from nodes, and open lets them come again.
func (c *cluster) close(t *testing.T, nodes string) {
	t.Helper()
	c.run(t, sandbox.Slurmctld, "scontrol", "update", "nodename="+nodes, "state=drain", "reason=closed")
}

func (c *cluster) open(t *testing.T, nodes string) {
	t.Helper()
	c.run(t, sandbox.Slurmctld, "scontrol", "update", "nodename="+nodes, "state=resume")
}

// haveFailed: jobs that could not be saved say why.
func (c *cluster) haveFailed(t *testing.T, node string, names ...string) {
	t.Helper()
	all := c.waitJobs(t, "NODE_FAIL", names...)
	for _, name := range names {
		assert.Equal(t, "0", all[name]["Restarts"])
		assert.Contains(t, all[name][""], "AdminComment=slurmlet: the pod of "+node+" was terminated, and the job may not be requeued")
	}
}

// wereRequeued: jobs wait to run again, for two minutes if nobody hurries them,
// and do so elsewhere.
func (c *cluster) wereRequeued(t *testing.T, names ...string) {
	t.Helper()
	all := c.jobs(t)
	for _, name := range names {
		assert.Equal(t, []string{"PENDING", "1"}, []string{all[name]["JobState"], all[name]["Restarts"]}, all[name][""])
	}
	c.run(t, sandbox.Slurmctld, "scontrol", "update", "jobid="+strings.Join(names, ","), "starttime=now+3")
	all = c.waitJobs(t, "COMPLETED", names...)
	written := strings.Fields(c.run(t, "login", "sh", "-c", "grep . /shared/*.runs"))
	for _, name := range names {
		assert.Equal(t, "1", all[name]["Restarts"])
		runs := grep(written, "/"+all[name]["JobId"]+".runs:")
		if assert.Len(t, runs, 2, "%s: one line per run", name) {
			assert.NotEqual(t, runs[0], runs[1])
		}
	}
}

// lives is a job that tells until when it lived; whenever it is killed, a whole time is there.
const lives = `f=/shared/$SLURM_JOB_ID.now; while :; do date +%s.%N > $f.new; mv $f.new $f; sleep 0.2; done`

// slurmctldAway: nothing counts as done that slurmctld has not said. One pod's
// slurmctld comes back in time, the other's does not.
func slurmctldAway(t *testing.T, c *cluster) {
	const patient, hurried = 2 * time.Minute, 16 * time.Second
	late := c.leaver(3, hurried)
	defer c.leavers(t, c.leaver(2, patient), late)()
	saved := c.submit(t, waits, "-w", "node-2", "--mem=64", "--no-requeue")
	lost := c.submit(t, lives, "-w", "node-3", "--mem=64", "--requeue")
	c.waitJob(t, saved, "RUNNING")
	c.waitJob(t, lost, "RUNNING")
	c.terminate(t, "node-3")
	c.waitDrained(t, "node-3", reasonTerminate)
	require.NoError(t, c.Delete(t.Context(), sandbox.Slurmctld, grace))
	c.terminate(t, "node-2")

	at, took := c.left(t, "node-3", hurried, agent.ExitLeft)
	t.Logf("node-3: exit %v after SIGTERM", took)
	lived := took - at.Sub(told(t, c.run(t, "login", "cat", "/shared/"+lost+".now")))
	t.Logf("node-3: its job lived for %v", lived)
	assert.Greater(t, lived, 10*time.Second, "no job is killed before the time is over")
	assert.Equal(t, supervisor.Stopping, c.agent(t, "node-2").State, "the other one still waits")

	require.NoError(t, c.Create(t.Context(), c.Slurmctld()))
	c.waitReady(t, sandbox.Slurmctld)
	c.let(t, saved)
	at, took = c.left(t, "node-2", patient, agent.ExitOK)
	after := at.Sub(told(t, c.run(t, "login", "cat", "/shared/"+saved+".out")))
	t.Logf("node-2: exit %v after the job's end, %v after SIGTERM", after, took)
	assert.Less(t, after, 2*slack, "and one question more that was not answered")
	job := c.waitJob(t, saved, "COMPLETED")
	assert.Equal(t, []string{"0:0", "0"}, []string{job["ExitCode"], job["Restarts"]})
	assert.Nil(t, c.record(t, "node-2"))

	c.waitDrained(t, "node-3", reasonTerminate)
	require.NoError(t, c.Delete(t.Context(), "node-3", 0))
	require.NoError(t, c.Create(t.Context(), late))
	c.waitReady(t, "node-3")
	until(t, "the next pod of that name takes the record over", func() (bool, string) {
		r := c.record(t, "node-3")
		return !r.Drained() && r.Responding() && r.Reason != reasonTerminate, strings.Join(r.State, "+") + " " + r.Reason
	})
	// slurmctld was never told how its processes were ended, and misses it when slurmd registers.
	until(t, "the lost job is started anew", func() (bool, string) {
		job = c.job(t, lost)
		return job["Restarts"] == "1", job["JobState"]
	})
	c.run(t, sandbox.Slurmctld, "scancel", lost)
	until(t, "the next pod is idle", func() (bool, string) {
		r := c.record(t, "node-3")
		return r.Is("IDLE") && !r.Busy(), strings.Join(r.State, "+")
	})
	c.waitReady(t, "node-0", "node-1")
}
