//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// neighbourCases have a plain user's job in the way of somebody else's. They need no limits.
var neighbourCases = []testCase{
	{"the files of users in volumes that are open to all", filesInOpenVolumes, either},
	{"a job fills the pod's disk", diskFills, both},
	{"files that jobs leave are counted, and removed where the site says so", filesAreLeft, either},
}

// secondUser is a plain user beside alice.
const secondUser = "games"

// filesInOpenVolumes: the kubelet makes each emptyDir with mode 0777, so a pod with a read-only root, or with shared
// memory of its own, has /tmp, /dev/shm and /run like that. No user removes there what is somebody else's.
func filesInOpenVolumes(t *testing.T, c *cluster) {
	node, end := third(t, c, func(s *sandbox.PodSpec) {
		for i, v := range s.Volumes {
			switch v.Name {
			case "run":
				s.Volumes[i].Path, s.Volumes[i].Mode = "/run", 0o777
			case "spool":
				s.Volumes[i].Mode = 0o777
			}
		}
		for name, path := range map[string]string{"tmp": "/tmp", "var-tmp": "/var/tmp", "shm": "/dev/shm"} {
			s.Volumes = append(s.Volumes, sandbox.Volume{Name: name, Path: path, Mode: 0o777})
		}
	})
	defer end()
	c.waitReady(t, node)
	job := func(user, script string) string {
		return c.as(t, user, "login", "srun", "-Q", "-w", node, "--chdir=/", "sh", "-c", script)
	}
	job("alice", "for dir in /tmp /var/tmp /dev/shm; do echo hers > $dir/hers; done")
	job(secondUser, `for file in /tmp/hers /var/tmp/hers /dev/shm/hers /run/slurmlet /var/spool/slurmd; do
		mv -T $file $file.taken 2>&1; done; echo > /run/mine; echo > /var/spool/slurmd/mine; true`)
	assert.Equal(t, strings.Repeat("hers\n", 3), job("alice", "cat /tmp/hers /var/tmp/hers /dev/shm/hers; true"))
	c.run(t, node, "test", "-d", "/run/slurmlet")
	modes := c.run(t, node, "stat", "-c", "%n %a", "/tmp", "/var/tmp", "/dev/shm", "/run", "/var/spool/slurmd")
	assert.Equal(t, "/tmp 1777\n/var/tmp 1777\n/dev/shm 1777\n/run 755\n/var/spool/slurmd 755\n", modes)
	assert.Len(t, grep(c.said(t, node, "INFO", "msg"), "could remove each other's files"), 1)
}

// diskFills: a job leaves most of what the pod may have on its disk. The kubelet would evict the pod during the next one.
func diskFills(t *testing.T, c *cluster) {
	node, end := third(t, c, func(s *sandbox.PodSpec) {
		s.Env["SLURMLET_STORAGE_LIMIT"], s.Env["SLURMLET_TMP_DIR"] = "200Mi", "/var/tmp"
	})
	defer end()
	c.waitReady(t, node)
	filler := c.submit(t, "dd if=/dev/zero of=/var/tmp/filler bs=1M count=170 2>&1", "-w", node)
	c.waitJob(t, filler, "COMPLETED")
	until(t, "the node takes no more jobs, and says why", func() (bool, string) {
		record := c.record(t, node)
		return record.Drained() && strings.HasPrefix(record.Reason, "slurmlet disk: ") &&
			strings.Contains(record.Reason, "job "+filler+" of alice"), record.Reason
	})
	numbers := c.numbers(t, node)
	assert.InDelta(t, 170<<20, numbers["slurmlet_disk_used_bytes"], 1<<20)
	assert.InDelta(t, 1, numbers["slurmlet_disk_full"], 0)
	assert.Contains(t, c.run(t, node, "slurmlet", "status"), "job "+filler+" of alice")
	c.run(t, node, "rm", "/var/tmp/filler")
	until(t, "the node takes jobs again", func() (bool, string) {
		record := c.record(t, node)
		return !record.Drained() && !strings.HasPrefix(record.Reason, "slurmlet disk: "), record.Reason
	})
	assert.Equal(t, node+"\n", c.as(t, "alice", "login", "srun", "-w", node, "hostname"))
}

// filesAreLeft: alice's jobs leave files. Another user's job runs, and root has files, too.
func filesAreLeft(t *testing.T, c *cluster) {
	const leave = "mkdir -p /tmp/alices/deep; echo > /tmp/alices/deep/file; dd if=/dev/zero of=/dev/shm/alices bs=1M count=40 2>&1; exec sleep 0.1"
	c.as(t, "alice", "login", "srun", "-Q", "-w", "node-0", "--chdir=/", "sh", "-c", leave)
	until(t, "the agent counts them", func() (bool, string) {
		left := c.numbers(t, "node-0")["slurmlet_left_files_memory_bytes"]
		return left >= 40<<20 && left < 42<<20, fmt.Sprint(left)
	})
	assert.Contains(t, c.run(t, "node-0", "slurmlet", "status"), "of users without a process here: uid 1000 (40 MiB)")
	c.run(t, "node-0", "rm", "-r", "/tmp/alices", "/dev/shm/alices")

	node, end := third(t, c, func(s *sandbox.PodSpec) {
		s.CPU, s.Env["SLURMLET_CPU_LIMIT"] = 2, "2000"
		s.Env["SLURMLET_LEFTOVERS"] = "remove"
	})
	defer end()
	c.waitReady(t, node)
	c.run(t, node, "touch", "/tmp/roots")
	others := strings.TrimSpace(c.as(t, secondUser, "login", "sbatch", "--parsable", "-n1", "--mem=50", "--chdir=/", "--output=/dev/null", "-w", node, "--wrap", "touch /tmp/others; sleep 1000"))
	c.waitJob(t, others, "RUNNING")
	first := c.submit(t, leave, "-n1", "--mem=50", "-w", node)
	c.waitJob(t, first, "COMPLETED")
	until(t, "alice's files are removed", func() (bool, string) {
		there := c.run(t, node, "ls", "/tmp", "/dev/shm")
		return !strings.Contains(there, "alices") && strings.Contains(there, "others"), there
	})
	assert.Contains(t, c.run(t, node, "ls", "/tmp"), "roots")
	assert.Len(t, grep(c.said(t, node, "INFO", "msg"), "of alice, who has no job here any more"), 1)
	c.run(t, sandbox.Slurmctld, "scancel", others)
	until(t, "the other user's files are removed", func() (bool, string) {
		there := c.run(t, node, "ls", "/tmp")
		return !strings.Contains(there, "others"), there
	})
}

// memoryCases are about processes and files that are no job's, and take a node's memory.
var memoryCases = []testCase{
	{"a process of nobody's fills the memory and dies first", strayDiesFirst, either},
	{"files that jobs leave take the memory of the next job", leftFilesTakeMemory, either},
}

// strayDiesFirst: whoever enters a Guaranteed pod has the agent's oom_score_adj (-997), and tasks of jobs have 0.
func strayDiesFirst(t *testing.T, c *cluster) {
	node, end := third(t, c, func(s *sandbox.PodSpec) {
		s.Memory = 224 << 20
		s.Env["SLURMLET_MEMORY_LIMIT"] = strconv.FormatInt(s.Memory, 10)
	})
	defer end()
	c.waitReady(t, node)
	innocent := c.submit(t, `perl -e '$x = "a" x (24 << 20); open F, ">/shared/innocent"; close F; sleep 1000'`, "-w", node, "--mem=100")
	c.waitJob(t, innocent, "RUNNING")
	c.run(t, "login", "timeout", "1m", "sh", "-c", "until [ -e /shared/innocent ]; do sleep 0.1; done")
	var said bytes.Buffer // as "kubectl exec" has it
	ended := make(chan int, 1)
	go func() { // the agent sees it at SLURMLET_RESERVE_MEMORY; one that is killed in the same instant has no name
		code, err := c.Attach(t.Context(), node, sandbox.How{}, sandbox.Streams{Stdout: &said, Stderr: &said}, "perl", "-e",
			`$x = ""; $x .= "a" x (1 << 20) for 1..100; select undef, undef, undef, 0.1 until -e "/tmp/seen"; $x .= "a" x (1 << 20) for 1..300`)
		assert.NoError(t, err)
		ended <- code
	}()
	until(t, "the agent sees it", func() (bool, string) {
		seen := grep(c.said(t, node, "INFO", "msg"), "have used up SLURMLET_RESERVE_MEMORY")
		return len(seen) > 0, fmt.Sprint(seen)
	})
	c.run(t, node, "touch", "/tmp/seen")
	assert.Equal(t, 137, <-ended, &said)
	assert.Equal(t, "RUNNING", c.job(t, innocent)["JobState"], "the job within its memory lives")
	assert.Contains(t, c.run(t, node, "pgrep", "-u", "alice", "perl"), "\n", "its task too")
	until(t, "the agent names what was killed", func() (bool, string) {
		killed := c.agent(t, node).Node.Strays
		return killed != nil && killed.Killed == 1 && strings.Contains(killed.Last, "perl"), fmt.Sprint(killed)
	})
	assert.Len(t, grep(c.said(t, node, "ERROR", "msg"), "perl"), 1)
	c.run(t, sandbox.Slurmctld, "scancel", innocent)
	c.waitJob(t, innocent, "CANCELLED")
}

// leftFilesTakeMemory: alice's job leaves files on tmpfs, and the next one, within its memory, finds no room.
func leftFilesTakeMemory(t *testing.T, c *cluster) {
	node, end := third(t, c, func(s *sandbox.PodSpec) {
		s.Memory = 224 << 20
		s.Env["SLURMLET_MEMORY_LIMIT"] = strconv.FormatInt(s.Memory, 10)
		s.Env["SLURMLET_LEFTOVERS"] = "remove"
	})
	defer end()
	c.waitReady(t, node)
	first := c.submit(t, "dd if=/dev/zero of=/dev/shm/left bs=1M count=50; dd if=/dev/zero of=/tmp/left bs=1M count=60", "-w", node, "--mem=150")
	c.waitJob(t, first, "COMPLETED")
	until(t, "its files are removed", func() (bool, string) {
		there := c.run(t, node, "ls", "/tmp", "/dev/shm")
		return !strings.Contains(there, "left"), there
	})
	second := c.submit(t, `perl -e '$x = "a" x (60 << 20)'`, "-w", node, "--mem=150")
	c.waitJob(t, second, "COMPLETED")
}
