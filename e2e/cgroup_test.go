//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

var cgroupCases = []testCase{
	{"cgroup: writable, with no more capabilities than the chart gives", chartsCapabilities, either},
	{"cgroup: read-only with CAP_SYS_ADMIN", cgroupRemounted, either},
	{"cgroup: read-only, required", cgroupRequired, either},
	{"cgroup: read-only, preferred", cgroupPreferred, either},
	{"cgroup: read-only, and Slurm does without", cgroupDisabled, either},
	{"cgroup: the host's namespace without CAP_SYS_ADMIN", hostNamespaceRefused, either},
	{"cgroup: the host's namespace", hostNamespace, either},
	{"cgroup: handed over among forking processes, and slurmd started again and again", startsAndStops, either},
}

// sysAdmin is containerd's default set and one more.
var sysAdmin = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID", "CAP_SETFCAP",
	"CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE", "CAP_SYS_ADMIN",
}

// hog takes so many MiB at once: one process, which is quicker out of memory
// than several that take each other's pages away meanwhile.
func hog(mib int) string { return fmt.Sprintf(`perl -e '$x = "a" x (%d << 20)'`, mib) }

// third is a node more, in a container of another kind; end takes it away, with
// its record.
func third(t *testing.T, c *cluster, change func(*sandbox.PodSpec)) (node string, end func()) {
	t.Helper()
	spec := c.Node(2)
	spec.Restart = "Never"
	change(&spec)
	require.NoError(t, c.Create(t.Context(), spec))
	return spec.Name, func() {
		c.removeNode(t, spec.Name)
	}
}

// accessIs: how the tree became writable, and that everything is on.
func accessIs(t *testing.T, c *cluster, node string, want cgroup.AccessMode) {
	t.Helper()
	c.waitReady(t, node)
	status := c.agent(t, node).Node.Cgroup
	assert.Equal(t, want, status.Access, status)
	assert.True(t, status.Complete(), status)
}

// limitsHold: a step over its memory is killed by its own cgroup.
func limitsHold(t *testing.T, c *cluster, node string) {
	t.Helper()
	before := c.agent(t, node).Main.PID
	id := c.submit(t, hog(400), "-w", node, "--mem=100")
	c.waitJob(t, id, "OUT_OF_MEMORY")
	assert.Equal(t, before, c.agent(t, node).Main.PID)
}

// chartsCapabilities: those of charts/slurm are enough for what slurmd does with
// jobs of others: start, limit, cancel them, and end in order.
func chartsCapabilities(t *testing.T, c *cluster) {
	node, end := third(t, c, func(s *sandbox.PodSpec) {
		s.Capabilities = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"}
		s.Env["SLURMLET_CGROUP"] = "require"
	})
	defer end()
	accessIs(t, c, node, cgroup.Writable)
	limitsHold(t, c, node)
	id := c.submit(t, "sleep 600", "-w", node)
	c.waitJob(t, id, "RUNNING")
	c.as(t, "alice", "login", "scancel", id)
	c.waitJob(t, id, "CANCELLED")
}

func cgroupRemounted(t *testing.T, c *cluster) {
	node, end := third(t, c, func(s *sandbox.PodSpec) {
		s.CgroupReadOnly, s.Capabilities = true, sysAdmin
		s.Env["SLURMLET_CGROUP"] = "require"
	})
	defer end()
	accessIs(t, c, node, cgroup.Remounted)
	limitsHold(t, c, node)
	mounts := c.run(t, node, "grep", "/sys/fs/cgroup ", "/proc/self/mounts")
	assert.Contains(t, mounts, "rw,nosuid,nodev,noexec,relatime", "the mount is as before but for ro")
	server := c.beside(t, "grep", "/sys/fs/cgroup ", "/proc/self/mounts")
	assert.Contains(t, server, "rw", "the host's own mount is as it was")
}

func cgroupRequired(t *testing.T, c *cluster) {
	node, end := third(t, c, func(s *sandbox.PodSpec) { s.CgroupReadOnly = true; s.Env["SLURMLET_CGROUP"] = "require" })
	defer end()
	assert.Equal(t, agent.ExitCgroup, c.waitExit(t, node))
	assert.Empty(t, c.lines(t, node, "slurmd"), "slurmd was not started")
	assert.Nil(t, c.record(t, node), "nothing was registered")
	said := c.said(t, node, "ERROR", "error")
	require.Len(t, said, 1)
	assert.Contains(t, said[0], "/sys/fs/cgroup is mounted read-only, and cannot be remounted (it needs CAP_SYS_ADMIN)")
}

// cgroupPreferred: the agent goes on, but a slurmd that is told to use cgroups
// does not: it ends at each start, and says why.
func cgroupPreferred(t *testing.T, c *cluster) {
	node, end := third(t, c, func(s *sandbox.PodSpec) { s.CgroupReadOnly = true })
	defer end()
	until(t, "the agent tells how slurmd ends", func() (bool, string) {
		s := c.agent(t, node)
		return strings.Contains(s.Reason, "exit code 1") && strings.Contains(s.Reason, "scope"), s.Reason
	})
	said := c.said(t, node, "WARN", "msg")
	said = grep(said, "Slurm cannot limit jobs by cgroup")
	require.Len(t, said, 1, "one line")
	for _, part := range []string{"mounted read-only", "cgroup_writable", "CAP_SYS_ADMIN", "CgroupPlugin=disabled", "proctrack/linuxproc", "jobacct_gather/linux"} {
		assert.Contains(t, said[0], part)
	}
	assert.Contains(t, c.agent(t, node).Node.Cgroup.Error, "mounted read-only")
	assert.Nil(t, c.record(t, node), "nothing was registered")
}

// cgroupDisabled: with the settings that the agent's line names, slurmd runs
// there; a job's memory is not limited then.
func cgroupDisabled(t *testing.T, c *cluster) {
	other := c.Cluster
	other.CgroupConf = "CgroupPlugin=disabled\n"
	other.SlurmConf = strings.NewReplacer(
		"SlurmctldHost=slurmctld", "SlurmctldHost=slurmctld-2", "proctrack/cgroup", "proctrack/linuxproc",
		"task/cgroup", "task/none", "jobacct_gather/cgroup", "jobacct_gather/linux",
	).Replace(other.SlurmConf)
	slurmctld := other.Slurmctld()
	slurmctld.Name = "slurmctld-2"
	slurmctld.Volumes[len(slurmctld.Volumes)-1].Name = "state-2"
	require.NoError(t, c.Create(t.Context(), slurmctld))
	defer func() { assert.NoError(t, c.Delete(t.Context(), slurmctld.Name, grace)) }()
	node, end := third(t, c, func(s *sandbox.PodSpec) {
		s.CgroupReadOnly = true
		s.Env["SLURMLET_SLURMCTLD"] = slurmctld.Name
	})
	defer end()
	c.waitReady(t, node)
	assert.Contains(t, c.agent(t, node).Node.Cgroup.Error, "mounted read-only", "the status says that nothing is enforced")
	out := c.run(t, slurmctld.Name, "srun", "--mem=20", "sh", "-c", "hostname; "+hog(100)+" && echo done")
	assert.Equal(t, []string{node, "done"}, strings.Fields(out))
}

func hostNamespaceRefused(t *testing.T, c *cluster) {
	for _, mode := range []string{"require", "prefer"} {
		t.Run(mode, func(t *testing.T) {
			node, end := third(t, c, func(s *sandbox.PodSpec) { s.HostCgroup = true; s.Env["SLURMLET_CGROUP"] = mode })
			defer end()
			assert.Equal(t, agent.ExitCgroup, c.waitExit(t, node))
			assert.Empty(t, c.lines(t, node, "slurmd"), "slurmd was not started")
			said := c.said(t, node, "ERROR", "error")
			require.Len(t, said, 1)
			assert.Regexp(t, `the container is in the host's cgroup namespace, its cgroup there is /.*/`+node, said[0])
			c.nothingBeside(t)
		})
	}
}

// hostNamespace is what a privileged pod gets. Every way to start a step stays
// inside, and the container's limits hold.
func hostNamespace(t *testing.T, c *cluster) {
	node, end := third(t, c, func(s *sandbox.PodSpec) {
		s.HostCgroup, s.Capabilities = true, sysAdmin
		s.CPU, s.Env["SLURMLET_CPU_LIMIT"] = 3, "3000"
		s.Env["SLURMLET_CGROUP"] = "require"
	})
	defer end()
	accessIs(t, c, node, cgroup.OwnNamespace)
	limits := c.agent(t, node).Node.Limits
	assert.Equal(t, int64(512<<20), limits.Memory.Value)
	assert.Equal(t, "/sys/fs/cgroup/memory.max", limits.Memory.Source)

	entered := c.run(t, node, "cat", "/proc/self/cgroup")
	assert.Regexp(t, "/pods/"+node+"/"+cgroup.Leaf+"\n$", entered, "who is brought in from outside stands beside the agent")

	id := c.submit(t, "srun --overlap sleep 1001 & sleep 1002", "-w", node, "--mem=200", "-n3")
	c.waitJob(t, id, "RUNNING")
	step := func(wrapper, number string) {
		command := fmt.Sprintf("srun --jobid=%s --overlap -n1 %s sleep %s", id, wrapper, number)
		if wrapper == "--pty" {
			command = "script -qc '" + command + "' /dev/null"
		}
		c.as(t, "alice", "login", "sh", "-c", command+" </dev/null >/dev/null 2>&1 &")
		c.waitStep(t, node, number)
	}
	c.waitStep(t, node, "1001")
	c.waitStep(t, node, "1002")
	step("", "1003")
	step("--pty", "1004")
	before := c.agent(t, node)
	c.run(t, node, "kill", strconv.Itoa(before.Main.PID))
	until(t, "slurmd was restarted", func() (bool, string) {
		s := c.agent(t, node)
		return s.State == supervisor.Ready && s.Main.PID != before.Main.PID, string(s.State)
	})
	step("", "1005")
	before = c.agent(t, node)
	c.run(t, sandbox.Slurmctld, "scontrol", "reconfigure")
	until(t, "slurmd was reconfigured", func() (bool, string) {
		s := c.agent(t, node)
		return s.State == supervisor.Ready && s.Main.PID != before.Main.PID, string(s.State)
	})
	step("", "1006")
	c.nothingBeside(t)
	c.run(t, sandbox.Slurmctld, "scancel", id)
	c.waitJob(t, id, "CANCELLED")
	overTheContainer(t, c, node)
}

// overTheContainer: a job that is given all the node's memory and wants more
// than the container may have is killed, and the container stayed within.
func overTheContainer(t *testing.T, c *cluster, node string) {
	id := c.submit(t, hog(700), "-w", node, "--mem=0")
	c.waitJob(t, id, "OUT_OF_MEMORY")
	peak, err := strconv.Atoi(strings.TrimSpace(c.beside(t, "sh", "-c", "cat $(find /sys/fs/cgroup -path '*/pods/"+node+"/memory.peak')")))
	require.NoError(t, err)
	assert.Greater(t, peak, 400<<20, "the job was charged to the container")
	assert.LessOrEqual(t, peak, 512<<20)
	assert.Equal(t, sandbox.Running, c.pod(t, node).State)
	c.nothingBeside(t)
}

func startsAndStops(t *testing.T, c *cluster) {
	program := filepath.Join(t.TempDir(), "forks")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./native/forks")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	node, end := third(t, c, func(s *sandbox.PodSpec) {
		s.CPU = 0
		s.Volumes = append(s.Volumes, sandbox.Volume{Name: "forks", Path: "/forks", HostPath: program})
		s.Args = []string{"/forks", strconv.Itoa(delegations), "/bin/sh", "-c", fmt.Sprintf(slurmdAgainAndAgain, slurmdStarts())}
	})
	defer end()
	code := c.waitExitWithin(t, limit+time.Duration(slurmdStarts())*3*time.Second, node)
	log, err := c.Logs(t.Context(), node)
	require.NoError(t, err)
	require.Zero(t, code, log)
	t.Log(log)
	assert.Contains(t, log, strconv.Itoa(delegations)+" delegations")
	after := regexp.MustCompile(`(?m)^after (\d+): (\d+) cgroups$`).FindAllStringSubmatch(log, -1)
	require.Len(t, after, 2)
	assert.Equal(t, strconv.Itoa(slurmdStarts()), after[1][1])
	assert.Equal(t, after[0][2], after[1][2], "no start leaves a cgroup behind")
	// slurmd 26.05 crashed once in 400 stops that came right after its start.
	assert.LessOrEqual(t, strings.Count(log, ": exit status "), slurmdStarts()/20, "slurmd ends as it should")
}

// delegations is how often the cgroup is handed over.
const delegations = 200

// slurmdStarts is how often slurmd itself is started.
func slurmdStarts() int { return rounds(20, 200) }

const slurmdAgainAndAgain = `
mkfifo /tmp/log; exec 3<>/tmp/log; i=0
while [ $i -lt %[1]d ]; do
	i=$((i+1))
	slurmd -D -Z -N node-2 --conf-server slurmctld:6817 --conf "CPUs=1 RealMemory=400" >/tmp/log 2>&1 & slurmd=$!
	while read -r line <&3; do
		case $line in
		*fatal*|*cgroup*) echo "start $i: $line"; exit 1;;
		*" CPUs=1 Boards=1 "*) break;;
		esac
	done
	kill $slurmd; wait $slurmd; status=$?
	case $status in 0|143) ;; *) echo "start $i: exit status $status";; esac # 143: it was not through its start yet
	if [ $i = 1 ] || [ $i = %[1]d ]; then echo "after $i: $(find /sys/fs/cgroup -type d | wc -l) cgroups"; fi
done`

// beside runs a command beside the pods.
func (c *cluster) beside(t *testing.T, args ...string) string {
	t.Helper()
	var out, said bytes.Buffer
	code, err := c.Shell(t.Context(), sandbox.How{}, sandbox.Streams{Stdout: &out, Stderr: &said}, args...)
	require.NoError(t, err)
	require.Zero(t, code, "%v: %s%s", args, &out, &said)
	return out.String()
}

// waitStep waits for a user's "sleep <number>" in the pod's pid namespace, and
// wants every process there to be in the pod's cgroup, that one in a job's.
func (c *cluster) waitStep(t *testing.T, pod, number string) {
	t.Helper()
	// A job's cgroup is job_N in 24.11; in 26.05 it has the job's SLUID for its name.
	users := regexp.MustCompile("/pods/" + pod + "/system.slice/" + pod + "_slurmstepd.scope/[^/]+/step_[^/]+/user/")
	until(t, "sleep "+number+" runs in its step", func() (bool, string) {
		for _, p := range c.processes(t, pod) {
			require.Contains(t, p.cgroup, "/pods/"+pod+"/", "%+v", p)
			if strings.HasSuffix(p.command, "sleep "+number) && !strings.Contains(p.command, "srun") && !strings.Contains(p.command, "sh") {
				// Its cgroup was read before its command: slurmstepd's child is moved just before it executes that.
				return users.MatchString(p.cgroup), p.cgroup
			}
		}
		return false, "not there"
	})
}

type runs struct{ pids, command, cgroup string }

// processes are those of a pod's pid namespace, as they are seen beside the pods.
func (c *cluster) processes(t *testing.T, pod string) []runs {
	t.Helper()
	out := c.beside(t, "sh", "-c", `stat -c '%N' /proc/[0-9]*/ns/pid; grep -sH . /proc/[0-9]*/cgroup; grep -saH . /proc/[0-9]*/cmdline | tr '\0' ' '; true`)
	all := map[string]*runs{}
	of := func(pid string) *runs {
		if all[pid] == nil {
			all[pid] = new(runs)
		}
		return all[pid]
	}
	for _, m := range regexp.MustCompile(`(?m)^'?/proc/(\d+)/(ns/pid|cgroup|cmdline)(?:'? -> '|:)(.*?)'?$`).FindAllStringSubmatch(out, -1) {
		switch p := of(m[1]); m[2] {
		case "cgroup":
			p.cgroup = m[3]
		case "cmdline":
			p.command = strings.TrimSpace(m[3])
		default:
			p.pids = m[3]
		}
	}
	first := ""
	for _, p := range all {
		if strings.Contains(p.cgroup, "/pods/"+pod+"/"+cgroup.Leaf) && strings.HasSuffix(p.command, "slurmlet slurmd") {
			first = p.pids
		}
	}
	require.NotEmpty(t, first, "the pod's agent: %s", out)
	var inside []runs
	for _, p := range all {
		if p.pids == first && p.cgroup != "" { // it has ended since its namespace was read
			inside = append(inside, *p)
		}
	}
	return inside
}

// nothingBeside: each node's steps have their place in that pod's cgroup, and
// nothing of Slurm's is anywhere else.
func (c *cluster) nothingBeside(t *testing.T) {
	t.Helper()
	for dir := range strings.FieldsSeq(c.beside(t, "find", "/sys/fs/cgroup", "-name", "system.slice", "-o", "-name", "*_slurmstepd.scope")) {
		assert.Regexp(t, `/pods/[^/]+/system.slice(/[^/]+_slurmstepd.scope)?$`, dir)
	}
}

// said returns one field of the agent's own lines of a level.
func (c *cluster) said(t *testing.T, pod, level, field string) (texts []string) {
	t.Helper()
	for _, line := range c.lines(t, pod, agent.Source) {
		if text, ok := line[field].(string); ok && line["level"] == level {
			texts = append(texts, text)
		}
	}
	return texts
}

func grep(lines []string, part string) (found []string) {
	for _, line := range lines {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}
