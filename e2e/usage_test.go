//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// usageIsTold: the metrics of a node are the kernel's numbers, by a job that burns CPU time, holds memory and is
// throttled, one beside it, and one that runs out of memory. Counters stay when a job's cgroup has gone.
func usageIsTold(t *testing.T, c *cluster) {
	node, end := third(t, c, func(s *sandbox.PodSpec) {
		s.CPU, s.Env["SLURMLET_CPU_LIMIT"] = 2, "2000"
		s.Env["SLURMLET_JOB_METRICS"] = "1"
	})
	defer end()
	c.waitReady(t, node)
	before := c.numbers(t, node)
	assert.Zero(t, before["slurmlet_node_jobs"])

	// Four processes on two CPUs.
	burner := c.submit(t, `perl -e '$x = "a" x (40 << 20); fork; fork; $end = time + 4; 1 while time < $end;
		select undef, undef, undef, 0.1 until -e "/shared/$ENV{SLURM_JOB_ID}.end"'`, "-w", node, "-n1", "--mem=200")
	c.waitJob(t, burner, "RUNNING")
	other := c.submit(t, "sleep 1000", "-w", node, "-n1", "--mem=50")
	c.waitJob(t, other, "RUNNING")
	dir := c.jobDir(t, node, burner)
	of := func(id, name string) string { return fmt.Sprintf(`slurmlet_job_%s{job_id=%q}`, name, id) }
	var now map[string]float64
	until(t, "both jobs have cgroups, one has burnt CPU time, and its memory is in use", func() (bool, string) {
		now = c.numbers(t, node)
		used, anon, jobs := now[of(burner, "cpu_seconds_total")], now[of(burner, "memory_anon_bytes")], now["slurmlet_node_jobs"]
		return used > 2 && anon > 40<<20 && jobs == 2, fmt.Sprint(used, anon, jobs)
	})
	t.Logf("cpu %v s, anon %v MiB, throttled %v of %v periods, a reading takes %v s", now[of(burner, "cpu_seconds_total")], now[of(burner, "memory_anon_bytes")]/(1<<20),
		now["slurmlet_node_container_cpu_throttled_periods_total"], now["slurmlet_node_container_cpu_periods_total"], now["slurmlet_node_usage_read_seconds"])
	assert.Greater(t, now["slurmlet_node_container_cpu_throttled_periods_total"], before["slurmlet_node_container_cpu_throttled_periods_total"])
	assert.Equal(t, 1, int(now["slurmlet_node_jobs_left_out"]))
	assert.NotContains(t, now, of(other, "cpu_seconds_total"), "one job has metrics of its own")

	c.usageIsTheKernels(t, node, map[string]string{
		"slurmlet_node_jobs_%s": path.Dir(dir), "slurmlet_node_daemons_%s": "/sys/fs/cgroup/slurmlet", "slurmlet_node_container_%s": "/sys/fs/cgroup",
		of(burner, "%s"): dir,
	})

	c.run(t, "login", "touch", "/shared/"+burner+".end")
	c.waitJob(t, burner, "COMPLETED")
	until(t, "the next job has metrics", func() (bool, string) {
		now = c.numbers(t, node)
		_, first := now[of(burner, "cpu_seconds_total")]
		_, second := now[of(other, "cpu_seconds_total")]
		return !first && second, fmt.Sprint(first, second)
	})
	assert.Greater(t, now["slurmlet_node_jobs_cpu_seconds_total"], 2.0, "what an ended job has used stays")
	assert.Zero(t, now["slurmlet_node_jobs_left_out"])

	kills := now["slurmlet_node_jobs_memory_oom_kills_total"]
	id := c.submit(t, hog(400), "-w", node, "-n1", "--mem=100")
	c.waitJob(t, id, "OUT_OF_MEMORY")
	until(t, "the kill is told", func() (bool, string) {
		now = c.numbers(t, node)
		return now["slurmlet_node_jobs_memory_oom_kills_total"] > kills, fmt.Sprint(now["slurmlet_node_jobs_memory_oom_kills_total"])
	})
	assert.Equal(t, int(now["slurmlet_steps_oom_kills_total"]), int(now["slurmlet_node_jobs_memory_oom_kills_total"]))
}

// numbers are a node's metrics by their names with the labels.
func (c *cluster) numbers(t *testing.T, node string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, line := range c.metrics(t, node) {
		blank := strings.LastIndexByte(line, ' ')
		if blank < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(line[blank+1:], 64)
		require.NoError(t, err, line)
		all[line[:blank]] = value
	}
	return all
}

// kernelsNumbers says where the kernel tells what a metric tells: in the interface file, behind the words (none: the
// file is the number). How often it is the unit.
var kernelsNumbers = []struct {
	metric, file, behind string
	unit                 float64
}{
	{"cpu_seconds_total", "cpu.stat", "usage_usec ", 1e6},
	{"cpu_user_seconds_total", "cpu.stat", "user_usec ", 1e6},
	{"cpu_system_seconds_total", "cpu.stat", "system_usec ", 1e6},
	{"cpu_periods_total", "cpu.stat", "nr_periods ", 1},
	{"cpu_throttled_periods_total", "cpu.stat", "nr_throttled ", 1},
	{"cpu_throttled_seconds_total", "cpu.stat", "\nthrottled_usec ", 1e6},
	{"cpu_throttled_by_any_seconds_total", "cpu.stat.local", "throttled_usec ", 1e6},
	{"cpu_pressure_some_seconds_total", "cpu.pressure", "some total=", 1e6},
	{"cpu_pressure_full_seconds_total", "cpu.pressure", "full total=", 1e6},
	{"memory_usage_bytes", "memory.current", "", 1},
	{"memory_peak_bytes", "memory.peak", "", 1},
	{"memory_anon_bytes", "memory.stat", "\nanon ", 1},
	{"memory_file_bytes", "memory.stat", "\nfile ", 1},
	{"memory_shmem_bytes", "memory.stat", "\nshmem ", 1},
	{"memory_high_bytes", "memory.high", "", 1},
	{"memory_limit_bytes", "memory.max", "", 1},
	{"memory_oom_kills_total", "memory.events", "oom_kill ", 1},
	{"memory_pressure_some_seconds_total", "memory.pressure", "some total=", 1e6},
	{"memory_pressure_full_seconds_total", "memory.pressure", "full total=", 1e6},
	{"swap_usage_bytes", "memory.swap.current", "", 1},
	{"swap_limit_bytes", "memory.swap.max", "", 1},
	{"io_read_bytes_total", "io.stat", "rbytes=", 1},
	{"io_written_bytes_total", "io.stat", "wbytes=", 1},
	{"io_reads_total", "io.stat", "rios=", 1},
	{"io_writes_total", "io.stat", "wios=", 1},
	{"io_pressure_some_seconds_total", "io.pressure", "some total=", 1e6},
	{"io_pressure_full_seconds_total", "io.pressure", "full total=", 1e6},
	{"threads", "pids.current", "", 1},
	{"threads_limit", "pids.max", "", 1},
}

// drift is how much a gauge may move between two looks: the kernel charges memory in batches.
const drift = 8 << 20

// usageIsTheKernels looks at the kernel's files before and after a reading of the agent's.
func (c *cluster) usageIsTheKernels(t *testing.T, node string, dirs map[string]string) {
	t.Helper()
	first, at := c.kernelsFiles(t, node, dirs)
	var now map[string]float64
	until(t, "the agent reads anew", func() (bool, string) {
		now = c.numbers(t, node)
		return now["slurmlet_node_usage_timestamp_seconds"] > at, fmt.Sprint(now["slurmlet_node_usage_timestamp_seconds"], at)
	})
	last, _ := c.kernelsFiles(t, node, dirs)
	for format, dir := range dirs {
		for _, k := range kernelsNumbers {
			name, file := fmt.Sprintf(format, k.metric), path.Join(dir, k.file)
			low, told := numberIn(first[file], k.behind)
			high, _ := numberIn(last[file], k.behind)
			if k.file == "io.stat" {
				_, told = first[file] // without a line, nothing was read or written yet
			}
			if strings.HasPrefix(k.behind, "nr_") || strings.HasPrefix(k.behind, "\nthrottled") {
				periods, _ := numberIn(first[file], "nr_periods ")
				told = told && periods > 0
			}
			value, known := now[name]
			if !assert.Equal(t, told, known, "%s: %q", name, first[file]) || !known {
				continue
			}
			low, high = low/k.unit, high/k.unit
			if !strings.HasSuffix(name[:strings.IndexByte(name+"{", '{')], "_total") {
				low, high = min(low, high)-drift, max(low, high)+drift
			}
			assert.True(t, low <= value && value <= high, "%s: %v <= %v <= %v", name, low, value, high)
		}
	}
}

// kernelsFiles are the interface files of some cgroups, and when they had been read.
func (c *cluster) kernelsFiles(t *testing.T, node string, dirs map[string]string) (files map[string]string, at float64) {
	t.Helper()
	script := ""
	for _, dir := range dirs {
		for _, k := range kernelsNumbers {
			script += fmt.Sprintf("if [ -e %[1]s ]; then echo '== %[1]s'; cat %[1]s; fi\n", path.Join(dir, k.file))
		}
	}
	out := c.run(t, node, "sh", "-c", script+"date '+@ %s.%N'")
	files = map[string]string{}
	text, stamp, _ := strings.Cut(out, "@ ")
	for part := range strings.SplitSeq(text, "== ") {
		name, content, _ := strings.Cut(part, "\n")
		files[name] = content
	}
	at, err := strconv.ParseFloat(strings.TrimSpace(stamp), 64)
	require.NoError(t, err)
	return files, at
}

// numberIn sums up the numbers behind some words: io.stat has a line for each device. A pressure has its averages
// between the words.
func numberIn(text, behind string) (sum float64, found bool) {
	if behind == "" {
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		return n, err == nil && !math.IsInf(n, 0)
	}
	if kind, total, pressure := strings.Cut(behind, " total="); pressure && total == "" {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, kind+" ") {
				return numberIn(line, "total=")
			}
		}
		return 0, false
	}
	parts := strings.Split("\n"+text, behind)
	for _, rest := range parts[1:] {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		n, err := strconv.ParseFloat(digits, 64)
		sum, found = sum+n, found || err == nil
	}
	return sum, found
}
