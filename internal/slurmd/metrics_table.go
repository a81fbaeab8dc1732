package slurmd

import (
	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/slurm/gres"
	"github.com/slurmlet/slurmlet/internal/slurmd/cgroups"
	"github.com/slurmlet/slurmlet/internal/slurmd/containers"
	"github.com/slurmlet/slurmlet/internal/slurmd/holds"
	"github.com/slurmlet/slurmlet/internal/slurmd/userfiles"
)

// WriteMetrics adds the node's metrics, nothing for nil.
func (n *Status) WriteMetrics(w *exposition.Writer) {
	if n == nil {
		return
	}
	exposition.ExposeAll(w, ofNode, n)
	exposition.ExposeAll(w, ofSteps, n.Steps)
	exposition.ExposeAll(w, ofStrays, n.Strays)
	exposition.ExposeAll(w, ofContainers, n.Containers)
	exposition.ExposeAll(w, ofFiles, n.Files)
	exposition.ExposeAll(w, holds.Metrics, n.PodHolds)
}

// metric is one that a T has.
type metric[T any] exposition.Metric[T]

// ofNode are the metrics of the node. docs/reference/metrics-list.md lists them all.
var ofNode = []metric[Status]{
	{"node_info", "node", "1, with the node's name in Slurm", func(n *Status) []exposition.Sample { return exposition.Amount(1, n.Name) }},
	{"node_cpus", "", "CPUs for jobs (CPUEfctv)", func(n *Status) []exposition.Sample { return exposition.Amount(n.Size.Usable()) }},
	{
		"node_memory_bytes", "", "Memory for jobs (RealMemory)",
		func(n *Status) []exposition.Sample { return exposition.Amount(n.Size.RealMemory * mib) },
	},
	{
		"node_tmp_disk_bytes", "", "Disk for jobs (TmpDisk)",
		func(n *Status) []exposition.Sample { return exposition.Amount(n.Size.TmpDisk * mib) },
	},
	{"node_gres", "name,type", "Generic resources for jobs (Gres)", func(n *Status) []exposition.Sample {
		return exposition.OfEach(n.Gres.Gres,
			func(r gres.Resource) []exposition.Sample { return exposition.Amount(r.Count, r.Name, r.Type) })
	}},
	{
		"node_misfits", "", "Settings of the cluster that do not go with the pod's limits, once they are known",
		func(n *Status) []exposition.Sample {
			if n.Fit == nil || n.Fit.Error != "" {
				return nil
			}
			return exposition.Amount(len(n.Fit.Mismatches))
		},
	},
	{
		"node_fault", "", "1 while a change of the pod cannot be followed",
		func(n *Status) []exposition.Sample { return exposition.Whether(n.Fault != "") },
	},
	{
		"node_refused", "", "1 while slurmctld does not take what the pod's annotations say",
		func(n *Status) []exposition.Sample { return exposition.Whether(n.Refusal != "") },
	},
	{
		"cgroup_enforced", "", "1 if Slurm has a cgroup subtree with all controllers that it limits jobs by",
		func(n *Status) []exposition.Sample { return exposition.Whether(n.Cgroup != nil && n.Cgroup.Complete()) },
	},
}

// ofContainers has what a node tells whose site asks for jobs' containers.
var ofContainers = []metric[containers.Status]{
	{
		"containers_ready", "", "1 if jobs' containers can be made on the node, 0 if the site asks for them in vain",
		func(c *containers.Status) []exposition.Sample { return exposition.Whether(c.Ready()) },
	},
	{
		"containers_squashfs_ready", "", "1 if they can be made of squashfs files and registries' images, too",
		func(c *containers.Status) []exposition.Sample { return exposition.Whether(c.Squashfs()) },
	},
	{
		"containers_running", "", "Jobs' containers that run on the node, by the names of the processes that hold them",
		ofUsage(func(u *containers.Usage) int { return u.Running }),
	},
	{
		"containers_images", "", "Registries' images that steps have pulled and the node keeps",
		ofUsage(func(u *containers.Usage) int { return u.Images }),
	},
	{
		"containers_images_bytes", "", "What these images take of the node's disk",
		ofUsage(func(u *containers.Usage) int64 { return u.ImageBytes }),
	},
	{
		"containers_disk_free_bytes", "", "What the file system of containers and images has left",
		ofUsage(func(u *containers.Usage) int64 { return u.Free }),
	},
}

// ofUsage has nothing where nobody has looked.
func ofUsage[T int | int64](of func(*containers.Usage) T) func(*containers.Status) []exposition.Sample {
	return func(c *containers.Status) []exposition.Sample {
		if c.Usage == nil {
			return nil
		}
		return exposition.Amount(of(c.Usage))
	}
}

var ofSteps = []metric[cgroups.StepsStatus]{
	{
		"steps_watched", "", "1 if the agent looks after the cgroups of jobs",
		func(s *cgroups.StepsStatus) []exposition.Sample { return exposition.Whether(s.Watching) },
	},
	{
		"steps_oom_kills_total", "", "Processes of jobs that the kernel has killed for want of memory",
		func(s *cgroups.StepsStatus) []exposition.Sample { return exposition.Amount(s.OOMKills) },
	},
	{
		"steps_dead_total", "", "Steps that have lost their slurmstepd",
		func(s *cgroups.StepsStatus) []exposition.Sample { return exposition.Amount(s.Dead) },
	},
	{
		"steps_leftover_cgroups_total", "", "Empty cgroups that Slurm had left and the agent has removed",
		func(s *cgroups.StepsStatus) []exposition.Sample { return exposition.Amount(s.Leftovers) },
	},
}

var ofStrays = []metric[cgroups.StraysStatus]{
	{
		"strays_oom_kills_total", "",
		"Processes that Slurm did not start and that the kernel has killed for want of memory",
		func(s *cgroups.StraysStatus) []exposition.Sample { return exposition.Amount(s.Killed) },
	},
}

var ofFiles = []metric[userfiles.Status]{
	{
		"files_timestamp_seconds", "", "When the agent looked at users' files",
		func(f *userfiles.Status) []exposition.Sample { return exposition.Moment(f.At) },
	},
	{
		"disk_limit_bytes", "", "The limit of the pod's disk (SLURMLET_STORAGE_LIMIT)",
		func(f *userfiles.Status) []exposition.Sample { return ofDisk(f, f.DiskLimit) },
	},
	{
		"disk_used_bytes", "",
		"Disk that counts against that limit: users' directories, the spool directory and emptyDirs",
		func(f *userfiles.Status) []exposition.Sample { return ofDisk(f, f.DiskUsed) },
	},
	{"disk_full", "", "1 while the node is drained because that disk is nearly full", func(f *userfiles.Status) []exposition.Sample {
		if f.DiskLimit == 0 {
			return nil
		}
		return exposition.Whether(f.DiskFull != "")
	}},
	{
		"left_files_memory_bytes", "", "Memory of files in shared directories whose users have no process here",
		func(f *userfiles.Status) []exposition.Sample { return exposition.Amount(f.LeftMemory) },
	},
	{
		"left_files_disk_bytes", "", "Disk of files in shared directories whose users have no process here",
		func(f *userfiles.Status) []exposition.Sample { return exposition.Amount(f.LeftDisk) },
	},
}

// ofDisk has nothing where the pod's disk has no limit.
func ofDisk(f *userfiles.Status, bytes int64) []exposition.Sample {
	if f.DiskLimit == 0 {
		return nil
	}
	return exposition.Amount(bytes)
}
