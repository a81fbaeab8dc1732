package usage

import (
	"fmt"
	"io"
	"path"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/kit/exposition"
)

// ofUsage are the metrics of a cgroup and all below it. docs/reference/metrics-list.md lists them all.
var ofUsage = []struct {
	name, help string // %s is whose it is
	quantity   cgroup.Quantity
	unit       float64
}{
	{"cpu_seconds_total", "CPU time of %s", cgroup.CPUTime, million},
	{"cpu_user_seconds_total", "CPU time of %s in user mode", cgroup.CPUUser, million},
	{"cpu_system_seconds_total", "CPU time of %s in the kernel", cgroup.CPUSystem, million},
	{"cpu_periods_total", "Periods of the own CPU quota of %s (cpu.max), if there is one", cgroup.QuotaPeriods, 1},
	{"cpu_throttled_periods_total", "Periods in which the own CPU quota of %s was used up", cgroup.ThrottledPeriods, 1},
	{
		"cpu_throttled_seconds_total", "Time for which the own CPU quota of %s held them up, summed over the CPUs",
		cgroup.ThrottledTime, million,
	},
	{
		"cpu_throttled_by_any_seconds_total",
		"Time for which any CPU quota, also one above, held up %s, summed over the CPUs (Linux 6.6)", cgroup.ThrottledByAny, million,
	},
	{"cpu_pressure_some_seconds_total", "Time in which some threads of %s waited for a CPU (PSI)", cgroup.CPUSome, million},
	{"cpu_pressure_full_seconds_total", "Time in which all threads of %s waited for a CPU (PSI)", cgroup.CPUFull, million},
	{"memory_usage_bytes", "Memory of %s, with the files that the kernel caches for them", cgroup.MemoryCurrent, 1},
	{"memory_peak_bytes", "The most memory that %s have had at once (Linux 5.19)", cgroup.MemoryPeak, 1},
	{"memory_anon_bytes", "Memory of %s that no file backs", cgroup.MemoryAnon, 1},
	{"memory_file_bytes", "Memory of %s that files back, with memory_shmem_bytes", cgroup.MemoryFile, 1},
	{"memory_shmem_bytes", "Memory of %s in tmpfs, /dev/shm and shared segments", cgroup.MemoryShmem, 1},
	{"memory_high_bytes", "The memory above which the kernel slows down %s, if there is a limit", cgroup.MemoryHigh, 1},
	{"memory_limit_bytes", "The memory limit of %s, if there is one", cgroup.MemoryMax, 1},
	{"memory_oom_kills_total", "Processes of %s that the kernel has killed for want of memory", cgroup.OOMKills, 1},
	{"memory_pressure_some_seconds_total", "Time in which some threads of %s waited for memory (PSI)", cgroup.MemorySome, million},
	{"memory_pressure_full_seconds_total", "Time in which all threads of %s waited for memory (PSI)", cgroup.MemoryFull, million},
	{"swap_usage_bytes", "Swap space of %s", cgroup.SwapCurrent, 1},
	{"swap_limit_bytes", "The limit of swap space of %s, if there is one", cgroup.SwapMax, 1},
	{"io_read_bytes_total", "Bytes that %s have read from block devices", cgroup.ReadBytes, 1},
	{"io_written_bytes_total", "Bytes that %s have written to block devices", cgroup.WrittenBytes, 1},
	{"io_reads_total", "Read operations of %s on block devices", cgroup.ReadOperations, 1},
	{"io_writes_total", "Write operations of %s on block devices", cgroup.WriteOperations, 1},
	{"io_pressure_some_seconds_total", "Time in which some threads of %s waited for a block device (PSI)", cgroup.IOSome, million},
	{"io_pressure_full_seconds_total", "Time in which all threads of %s waited for a block device (PSI)", cgroup.IOFull, million},
	{"threads", "Processes and threads of %s", cgroup.Threads, 1},
	{"threads_limit", "The limit of processes and threads of %s, if there is one", cgroup.ThreadsMax, 1},
}

// million is microseconds of a second.
const million = 1e6

// The prefixes say whose usage it is.
const (
	jobsPrefix      = "node_jobs_"
	daemonsPrefix   = "node_daemons_"
	containerPrefix = "node_container_"
	eachJobPrefix   = "job_"
)

// ofReading are the metrics of a reading besides.
var ofReading = []exposition.Metric[nodeUsage]{
	of("node_jobs", "", "Jobs that have a cgroup on the node", func(u *nodeUsage) []exposition.Sample {
		if u.count < 0 {
			return nil
		}
		return exposition.Amount(u.count)
	}),
	of("node_jobs_left_out", "", "Jobs beyond SLURMLET_JOB_METRICS, which have no metrics of their own",
		func(u *nodeUsage) []exposition.Sample {
			if u.count < 0 || u.most == 0 {
				return nil
			}
			return exposition.Amount(max(0, u.count-u.most))
		}),
	of("node_usage_timestamp_seconds", "", "When the agent read what the node's processes use",
		func(u *nodeUsage) []exposition.Sample { return exposition.Moment(u.began) }),
	of("node_usage_read_seconds", "", "How long that took",
		func(u *nodeUsage) []exposition.Sample { return exposition.Amount(u.took.Seconds()) }),
	of("node_gpu_present", "gpu,type",
		"1 while the container has the GPU's device node, 0 if it has vanished since the start", func(u *nodeUsage) []exposition.Sample {
			return u.ofGPUs(func(g gpuUsage, labels ...string) []exposition.Sample {
				return exposition.Whether(g.present, labels...)
			})
		}),
	of("node_gpu_memory_bytes", "gpu,type", "Memory of the GPU, where its driver tells it without a library (AMD)",
		func(u *nodeUsage) []exposition.Sample {
			return u.ofGPUs(func(g gpuUsage, labels ...string) []exposition.Sample {
				if g.memory.Total == 0 {
					return nil
				}
				return exposition.Amount(g.memory.Total, labels...)
			})
		}),
	of("node_gpu_memory_used_bytes", "gpu,type",
		"Memory of the GPU that is in use, where its driver tells it without a library (AMD)", func(u *nodeUsage) []exposition.Sample {
			return u.ofGPUs(func(g gpuUsage, labels ...string) []exposition.Sample {
				if g.memory.Total == 0 {
					return nil
				}
				return exposition.Amount(g.memory.Used, labels...)
			})
		}),
}

func of(name, labels, help string, samples func(*nodeUsage) []exposition.Sample) exposition.Metric[nodeUsage] {
	return exposition.Metric[nodeUsage]{Name: name, Labels: labels, Help: help, Samples: samples}
}

// ofGPUs names each by the last of its device nodes: nvidia0, renderD128, and nvidia-cap13 for
// an instance of MIG.
func (u *nodeUsage) ofGPUs(samples func(g gpuUsage, labels ...string) []exposition.Sample) []exposition.Sample {
	return exposition.OfEach(u.gpuUsages,
		func(g gpuUsage) []exposition.Sample { return samples(g, path.Base(g.Files[len(g.Files)-1]), g.Type) })
}

func (u *nodeUsage) write(to io.Writer) {
	w := exposition.NewWriter(to)
	for _, part := range []struct {
		prefix, whose string
		usage         *cgroup.Usage
	}{
		{jobsPrefix, "the node's jobs", u.allJobs},
		{daemonsPrefix, "the agent, slurmd and what they run", u.daemons},
		{containerPrefix, "the container's processes", u.container},
	} {
		if part.usage != nil {
			exposeUsage(w, part.prefix, part.whose, []labelled{{"", part.usage}})
		}
	}
	var jobs []labelled
	for i := range u.each {
		jobs = append(jobs, labelled{exposition.Labels("job_id", u.each[i].Number), &u.each[i].Usage})
	}
	exposeUsage(w, eachJobPrefix, "the job's processes on this node", jobs)
	exposition.ExposeAll(w, ofReading, u)
	_ = w.Flush() // to memory
}

// labelled is usage with the labels as they are written.
type labelled struct {
	labels string
	*cgroup.Usage
}

// exposeUsage adds what is known of each.
func exposeUsage(w *exposition.Writer, prefix, whose string, all []labelled) {
	for _, m := range ofUsage {
		name, begun := "slurmlet_"+prefix+m.name, false
		for _, one := range all {
			value, known := one.Get(m.quantity)
			if !known {
				continue
			}
			if !begun {
				w.Head(name, fmt.Sprintf(m.help, whose), exposition.KindOf(name))
				begun = true
			}
			w.WriteSample(name, one.labels, float64(value)/m.unit)
		}
	}
}
