package podsize

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// Pod is what the cluster's configuration is compared with.
type Pod struct {
	Size      nodesize.Size
	Resources nodesize.Resources
	Gres      Gres
	// Shared says that the machine is shared with Kubernetes' pods.
	Shared bool
	// Controllers are those of the cgroup subtree that Slurm has, none without one.
	Controllers []string
	// MayHoldDevices says whether slurmstepd may load the eBPF programs by which ConstrainDevices works.
	MayHoldDevices bool
	// MayBind says whether slurmstepd may bind users' processes to CPUs.
	MayBind bool
	// SpoolDir and TmpDir are the directories whose sizes were taken for TmpDisk.
	SpoolDir, TmpDir string
	// GresConf is the file that the cluster's gres.conf must include.
	GresConf string
}

// Mismatches compares the cluster's configuration with a pod: nothing here is
// wrong by itself, and the node is Ready, but jobs fail on it or are not held to
// what they were given.
func Mismatches(p Pod, cluster slurm.Config) []slurm.Mismatch {
	f := comparison{Pod: p, cluster: cluster}
	f.note(f.task("affinity") &&
		!f.MayBind, "TaskPlugin", "task/cgroup without task/affinity (slurm.conf), or the capability SYS_NICE for the container",
		"slurmstepd may not bind users' processes (sched_setaffinity(2)), and every launch fails")
	f.checkBinding()
	f.checkOverride()
	f.checkMemory()
	f.checkPlugins()
	f.checkControllers()
	f.checkGres()
	f.checkDevices()
	f.checkDirectories()
	return f.found
}

type comparison struct {
	Pod
	cluster slurm.Config
	found   []slurm.Mismatch
}

// note notes what the cluster has for key, if it is a mismatch.
func (f *comparison) note(mismatch bool, key, instead, why string) {
	if mismatch {
		f.found = append(f.found, slurm.Mismatch{Setting: key + "=" + f.cluster[key], Instead: instead, Why: why})
	}
}

func (f *comparison) task(plugin string) bool { return f.cluster.Has("TaskPlugin", "task/"+plugin) }

// confines: jobs get cpusets of their own.
func (f *comparison) confines() bool {
	return f.task("cgroup") && f.cluster.Is("ConstrainCores", "yes")
}

// checkBinding: Slurm binds jobs to the machine's CPUs by number. That is right in a
// pod that has CPUs of its own, and in no other.
func (f *comparison) checkBinding() {
	own, limits := f.Size.Reserved.Len() > 0, f.Resources
	switch {
	case own && limits.Paid() < limits.CPUSet.Value.Len():
		f.unbound("the pod's quota is of fewer CPUs than its cpuset, and all pods that share the cpuset bind their jobs to the same ones")
	case own:
		why := "the pod has CPUs of its own, but its jobs are not held to those that Slurm gives them"
		f.note(!f.task("cgroup"), "TaskPlugin", "task/cgroup (slurm.conf), with ConstrainCores=yes (cgroup.conf)", why)
		f.note(f.task("cgroup") && !f.confines(), "ConstrainCores", "yes (cgroup.conf)", why)
	case limits.CPUSet.Bounded():
		f.unbound(fmt.Sprintf(
			"Slurm has no number for any of the pod's CPUs %s, because others are offline, and would bind jobs to others, which fails",
			limits.CPUSet.Value))
	case f.Shared:
		f.unbound("the machine is shared with Kubernetes' pods, and the kubelet may give any of its CPUs to them")
	case f.Size.CPUs < limits.Online.Len():
		f.unbound("the pod has a quota and no CPUs of its own, and the jobs of all such pods on a machine are bound to its first CPUs")
	}
}

// unbound: jobs are better not bound.
func (f *comparison) unbound(why string) {
	f.note(f.task("affinity"), "TaskPlugin", "task/cgroup without task/affinity (slurm.conf)", why)
	f.note(f.confines(), "ConstrainCores", "no (cgroup.conf): the kernel bounds the CPUs already", why)
}

// checkOverride: slurmd ≥ 25.05 can look at its cgroup itself. What it finds is given
// by the agent already.
func (f *comparison) checkOverride() {
	f.note(f.cluster.Has("TaskPluginParam", "SlurmdSpecOverride"), "TaskPluginParam", "no SlurmdSpecOverride (slurm.conf)",
		"slurmd would take the container's memory limit from RealMemory again, which is without the reserve and so "+
			"below it: MemSpecLimit becomes absurd")
}

// checkMemory: who stops a job that takes more than it has asked for.
func (f *comparison) checkMemory() {
	allocated := strings.Contains(strings.ToUpper(f.cluster["SelectTypeParameters"]), "MEMORY")
	f.note(!allocated, "SelectTypeParameters", "CR_Core_Memory or another with Memory (slurm.conf)",
		"memory is not allocated, so jobs together can be given more than RealMemory and none has a limit of its own")
	why := "a job that takes too much memory is stopped only by the container's limit, where the kernel chooses " +
		"among all processes of the pod"
	bounded := allocated && f.Resources.Memory.Bounded()
	f.note(bounded && f.without() && !f.cluster.Has("JobAcctGatherParams", "OverMemoryKill"), "JobAcctGatherParams",
		"OverMemoryKill (slurm.conf)",
		"nothing else ends a job that takes too much memory but the container's limit, which may end all jobs of the pod")
	bounded = bounded && !f.without()
	f.note(bounded && !f.task("cgroup"), "TaskPlugin", "task/cgroup (slurm.conf), with ConstrainRAMSpace=yes (cgroup.conf)", why)
	f.note(bounded && f.task("cgroup") && !f.cluster.Is("ConstrainRAMSpace", "yes"), "ConstrainRAMSpace", "yes (cgroup.conf)", why)
	f.note(f.Resources.Swap.Bounded() && f.Resources.Swap.Value > 0 && !f.cluster.Is("ConstrainSwapSpace", "yes"), "ConstrainSwapSpace",
		"yes (cgroup.conf), with AllowedSwapSpace", "jobs can take the pod's swap, beyond the memory that they have asked for")
}

// checkPlugins notes plugins of slurm.conf that the agent cannot work with.
func (f *comparison) checkPlugins() {
	f.note(!f.cluster.Is("SelectType", "select/cons_tres"), "SelectType", "select/cons_tres (slurm.conf)",
		"dynamic nodes need it")
	f.note(f.delegated() && !f.cluster.Is("ProctrackType", "proctrack/cgroup"), "ProctrackType", "proctrack/cgroup (slurm.conf)",
		"processes that leave their session outlive their job, and no cgroup bounds it")
	f.note(f.delegated() && f.cluster.Is("JobAcctGatherType", "jobacct_gather/linux"), "JobAcctGatherType",
		"jobacct_gather/cgroup (slurm.conf)",
		"what processes share is counted for each of them, and polling takes the pod's own CPU time")
	f.note(f.delegated() && !f.cluster.Is("CgroupPlugin", "cgroup/v2") && !f.cluster.Is("CgroupPlugin", "autodetect"),
		"CgroupPlugin", "cgroup/v2 (cgroup.conf)",
		"the container's cgroup is handed to Slurm, which does not use it")
	f.note(f.delegated() && !f.cluster.Is("CgroupMountpoint", "/sys/fs/cgroup"), "CgroupMountpoint", "/sys/fs/cgroup (cgroup.conf)",
		"that is where a container has its cgroups")
	f.note(f.without(), "CgroupPlugin",
		"cgroup/v2 (cgroup.conf), SLURMLET_CGROUP=require, and a cgroup that slurmd can write (the chart: "+
			"cgroup.runtimeClassName, or cgroup.access)",
		"no cgroup holds a job to its memory, cores and devices, and processes that leave their session outlive their job")
	f.note(f.delegated() && f.cluster.Is("IgnoreSystemd", "yes") && older(f.cluster["SLURM_VERSION"], 26),
		"IgnoreSystemd", "no (cgroup.conf)",
		"the agent prepares what it is for; with it, this slurmd moves PID 1 at every start and refuses its second "+
			"reconfigure in a container")
}

// delegated: Slurm has a cgroup subtree. When it has none, the log says so already.
func (f *comparison) delegated() bool { return len(f.Controllers) > 0 }

// without: nobody has a cgroup for jobs.
func (f *comparison) without() bool {
	return !f.delegated() && f.cluster.Is("CgroupPlugin", "disabled")
}

// older: the version's first number is below major.
func older(version string, major int) bool {
	first, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(first)
	return err == nil && n < major
}

// checkControllers notes settings that need a controller which the container's cgroup does not have.
func (f *comparison) checkControllers() {
	for _, need := range []struct{ key, controller string }{
		{"ConstrainCores", "cpuset"},
		{"ConstrainRAMSpace", "memory"},
		{"ConstrainSwapSpace", "memory"},
	} {
		missing := f.delegated() && !slices.Contains(f.Controllers, need.controller)
		f.note(missing && f.task("cgroup") && f.cluster.Is(need.key, "yes"), need.key,
			"no (cgroup.conf), or the controller for the container",
			"the container's cgroup has no "+need.controller+" controller")
	}
}

// checkDirectories whose sizes were taken for TmpDisk.
func (f *comparison) checkDirectories() {
	f.note(f.cluster["TmpFS"] != f.TmpDir, "TmpFS", "SLURMLET_TMP_DIR="+f.cluster["TmpFS"],
		"TmpDisk is that of "+f.TmpDir+", and slurmctld refuses a node whose TmpFS is smaller")
	f.note(f.cluster["SlurmdSpoolDir"] != f.SpoolDir, "SlurmdSpoolDir", "SLURMLET_SPOOL_DIR="+f.cluster["SlurmdSpoolDir"],
		"TmpDisk is bounded by the file system of "+f.SpoolDir)
}
