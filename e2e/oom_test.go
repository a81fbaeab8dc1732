//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// rounds is few, or all of them with SLURMLET_E2E_FULL=1.
func rounds(few, all int) int {
	if withTime() {
		return all
	}
	return few
}

// withTime says whether the tests may take an hour.
func withTime() bool { return os.Getenv("SLURMLET_E2E_FULL") == "1" }

const oomKills = "slurmlet_steps_oom_kills_total"

// A job whose steps have all of its memory, each with 4 processes that want
// more, beside another job on the node. The kubelet's memory.oom.group=1 is on
// the container (sandbox.Cluster.Node).
func jobOverItsMemory(t *testing.T, c *cluster) {
	const node = "node-1"
	other := c.submit(t, "sleep 1000", "-w", node, "--mem=64")
	c.waitJob(t, other, "RUNNING")
	c.waitHeadroom(t, node, other, 64+32)
	before, told := c.agent(t, node), c.numbers(t, node)[oomKills]

	batch := c.submit(t, hog(400), "-w", node, "--mem=100")
	c.waitJob(t, batch, "OUT_OF_MEMORY")

	n := rounds(4, 200)
	script := fmt.Sprintf(`for i in $(seq %d); do srun -n4 --overcommit %s 2>&1 | grep -qi 'out of memory' || echo round $i; done`, n, hog(200))
	began := time.Now()
	out := c.as(t, "alice", "login", "salloc", "-Q", "-w", node, "--mem=32", "sh", "-c", script)
	t.Logf("%d rounds in %v", n, time.Since(began))
	assert.Empty(t, out, "every srun returns and says why")

	after := c.agent(t, node)
	assert.Equal(t, before.Main.PID, after.Main.PID, "slurmd lives")
	assert.Equal(t, before.Node.Steps.Dead, after.Node.Steps.Dead, "every slurmstepd lives")
	assert.Greater(t, after.Node.Steps.OOMKills, before.Node.Steps.OOMKills+int64(n))
	if withTime() { // the alert wants more kills than a few rounds are sure to bring
		alertFires(t, "SlurmOOMKills", oomKills, told, c.numbers(t, node)[oomKills])
	}
	c.notKilled(t, node)
	job := c.job(t, other)
	assert.Equal(t, "RUNNING", job["JobState"], "the other job lives")
	assert.Equal(t, "0", job["Restarts"])

	// A further step writes the job's limits again.
	c.as(t, "alice", "login", "srun", "--jobid="+other, "--overlap", "true")
	c.waitHeadroom(t, node, other, 64+32)
	c.run(t, sandbox.Slurmctld, "scancel", other)
}

// notKilled: the container's own limit has killed nobody, and not everybody.
func (c *cluster) notKilled(t *testing.T, node string) {
	t.Helper()
	local := c.run(t, node, "cat", "/sys/fs/cgroup/memory.events.local", "/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory.oom.group")
	assert.Contains(t, local, "\noom 0\n")
	assert.NotContains(t, strings.ReplaceAll(local, "oom_group_kill 0", ""), "oom_group_kill")
	assert.True(t, strings.HasSuffix(local, "\n0\n"), "memory.oom.group: %s", local)
	assert.Equal(t, sandbox.Running, c.pod(t, node).State)
}

// jobDir is a job's cgroup in its node: named by number, or by SLUID.
func (c *cluster) jobDir(t *testing.T, node, id string) string {
	t.Helper()
	var procs string
	until(t, "slurmstepd is in its cgroup", func() (bool, string) {
		out, said, code, err := c.Exec(t.Context(), node, "sh", "-c", "cat /proc/$(pgrep -o -f 'slurmstepd: .'"+id+"'[.]')/cgroup")
		procs = out
		return err == nil && code == 0 && strings.Contains(out, "/step_"), out + said // it moves there at first
	})
	dir, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(procs, "0::")), "/step_")
	return path.Join("/sys/fs/cgroup", dir)
}

func (c *cluster) waitHeadroom(t *testing.T, node, id string, mebibytes int) {
	t.Helper()
	dir, want := c.jobDir(t, node, id), strconv.Itoa(mebibytes<<20)
	until(t, "the job has headroom", func() (bool, string) {
		limits := strings.Fields(c.run(t, node, "cat", dir+"/memory.max", dir+"/memory.high"))
		return limits[0] == want && limits[1] == want, fmt.Sprint(limits)
	})
}

// A slurmstepd that dies takes its step along, and the job's end says so. srun
// gives up after slurm.conf's KillWait and 2 s.
func slurmstepdKilled(t *testing.T, c *cluster) {
	returned := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	defer cancel()
	go func() {
		_, _, _, err := c.ExecAs(ctx, "login", sandbox.How{User: "alice", Dir: "/tmp"}, "srun", "-w", "node-1", "--mem=50", "-J", "interactive", "sleep", "1000")
		returned <- err
	}()
	var interactive string
	until(t, "srun runs", func() (bool, string) {
		interactive = strings.TrimSpace(c.run(t, sandbox.Slurmctld, "squeue", "-h", "-n", "interactive", "-t", "RUNNING", "-o", "%i"))
		return interactive != "", interactive
	})
	batch := c.submit(t, "sleep 1000 & sleep 1000", "-w", "node-1", "--mem=50", "--requeue")
	c.waitJob(t, batch, "RUNNING")
	const dead = "slurmlet_steps_dead_total"
	told := c.numbers(t, "node-1")[dead]
	c.loseStepd(t, "node-1", interactive, "0")
	assert.Equal(t, "RUNNING", c.job(t, batch)["JobState"], "the other job lives")
	c.loseStepd(t, "node-1", batch, "batch")
	alertFires(t, "SlurmStepsLost", dead, told, c.numbers(t, "node-1")[dead])
	c.waitNoSteps(t, "node-1")
	assert.Empty(t, c.run(t, "node-1", "sh", "-c", "pgrep -u alice || true"), "their processes are gone")
	shortJobs(t, c)
	assert.NoError(t, <-returned)
}

func (c *cluster) loseStepd(t *testing.T, node, id, step string) {
	t.Helper()
	before := c.agent(t, node)
	asked := time.Now()
	c.run(t, node, "env", "SLURM_CONF_SERVER=slurmctld", "scontrol", "show", "job", id)
	question := time.Since(asked)
	killed := seconds(t, c.run(t, node, "sh", "-c", "date +%s; pkill -9 -f 'slurmstepd: .("+id+"[.]"+step+")'"))
	job := c.waitJob(t, id, "CANCELLED")
	took := seconds(t, c.run(t, sandbox.Slurmctld, "date", "-d", job["EndTime"], "+%s")) - killed
	t.Logf("the job ended after %d s; a question takes %v", took, question)
	assert.LessOrEqual(t, took, max(15, int((time.Second+5*question).Seconds())), "a busy machine may need longer for three questions")
	comment := c.run(t, sandbox.Slurmctld, "scontrol", "show", "job", id)
	assert.Contains(t, comment, fmt.Sprintf("AdminComment=slurmlet: slurmstepd of step %s.%s died on %s", id, step, node))
	assert.Equal(t, "0", job["Restarts"])
	until(t, "the agent counts it", func() (bool, string) {
		now := c.agent(t, node)
		return now.Node.Steps.Dead == before.Node.Steps.Dead+1, now.Node.Steps.String()
	})
	assert.Equal(t, before.Main.PID, c.agent(t, node).Main.PID)
}

func seconds(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(t, err)
	return n
}

// waitNoSteps waits until no job's cgroup is left on a node.
func (c *cluster) waitNoSteps(t *testing.T, node string) {
	t.Helper()
	until(t, "no step's cgroup is left on "+node, func() (bool, string) {
		dirs := c.run(t, node, "sh", "-c", "cd /sys/fs/cgroup/system.slice/*.scope && find . -mindepth 1 -type d ! -name system ! -name slurmd")
		return dirs == "", dirs
	})
}

// Short batch jobs, and short steps beside them, four at a time: what Slurm
// leaves of them is removed, and nothing that is in use.
func shortJobs(t *testing.T, c *cluster) {
	arrays, tasks, rounds := 2, rounds(2, 800), rounds(1, 100)
	before := c.agent(t, "node-1")
	began := time.Now()
	for range arrays {
		c.submit(t, "echo over >> /shared/short", "-w", "node-1", "--mem=20", "-J", "short", "-o", "/dev/null", fmt.Sprintf("--array=1-%d", tasks))
	}
	script := fmt.Sprintf(`for i in $(seq %d); do for j in 1 2 3 4; do srun -n1 --mem=10 --overlap --overcommit true || echo failed & done; wait; done`, rounds)
	out := c.as(t, "alice", "login", "salloc", "-Q", "-w", "node-1", "--mem=100", "sh", "-c", script)
	assert.Empty(t, out, "no step fails")
	c.run(t, "login", "timeout", "1h", "sh", "-c", fmt.Sprintf("until [ $(wc -l < /shared/short) -ge %d ]; do sleep 1; done", arrays*tasks))
	until(t, "the jobs are over", func() (bool, string) {
		left := c.run(t, sandbox.Slurmctld, "squeue", "-h", "-n", "short", "-o", "%i %T")
		return left == "", left
	})
	t.Logf("%d jobs and %d steps in %v", arrays*tasks, 4*rounds, time.Since(began))
	c.waitNoSteps(t, "node-1")
	assert.Equal(t, arrays*tasks, strings.Count(c.run(t, "login", "cat", "/shared/short"), "over\n"), "every job has run once")
	after := c.agent(t, "node-1")
	assert.Equal(t, before.Node.Steps.Dead, after.Node.Steps.Dead)
	t.Logf("left behind by Slurm: %d", after.Node.Steps.Leftovers-before.Node.Steps.Leftovers)
}

// Without ConstrainRAMSpace a job is bounded by the container only.
func jobOverTheContainersMemory(t *testing.T, c *cluster) {
	const conf = "/etc/slurm/cgroup.conf"
	was := c.run(t, sandbox.Slurmctld, "cat", conf)
	configure := func(text string) {
		before := c.agent(t, "node-0").Main.PID
		c.run(t, sandbox.Slurmctld, "sh", "-c", `printf %s "$1" > "$2"; slurmlet reload`, "sh", text, conf)
		until(t, "slurmd has reconfigured", func() (bool, string) {
			s := c.agent(t, "node-0")
			return s.Main.PID != before && s.State == sandbox.Ready, string(s.State)
		})
	}
	configure(strings.NewReplacer("ConstrainRAMSpace=yes", "ConstrainRAMSpace=no", "ConstrainSwapSpace=yes", "ConstrainSwapSpace=no").Replace(was))
	before, restarts := c.agent(t, "node-0").Main.PID, c.pod(t, "node-0").Restarts
	id := c.submit(t, hog(900)+"; echo hog: $?", "-w", "node-0")
	c.waitJob(t, id, "COMPLETED") // the script lives, and sees what has become of it
	assert.Equal(t, "hog: 137\n", c.run(t, "login", "sh", "-c", "grep '^hog:' /shared/"+id+".out"))
	assert.Equal(t, before, c.agent(t, "node-0").Main.PID, "slurmd lives")
	pod := c.pod(t, "node-0")
	require.Equal(t, []any{sandbox.Running, restarts}, []any{pod.State, pod.Restarts})
	assert.NotContains(t, c.run(t, "node-0", "cat", "/sys/fs/cgroup/memory.events.local"), "\noom 0\n", "it was the container's limit")
	configure(was)
	c.waitReady(t, "node-0", "node-1", sandbox.Slurmctld)
}
