package series

import (
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// These tables have the metrics that slurmctld has itself from 25.11 on, by its names
// (src/plugins/metrics/openmetrics/openmetrics.c, src/slurmctld/statistics.c). They count as
// slurmctld does:
//
//   - slurm_jobs, …_jobs_pending and …_jobs_hold count each waiting task of an array. All others
//     count records, and all waiting tasks of an array are one record. That holds for
//     slurm_user_jobs, slurm_account_jobs and slurm_partition_jobs too.
//   - Each part of a heterogeneous job is a job.
//   - A job is held if its reason is JobHeldUser or JobHeldAdmin. …_jobs_pending has held jobs too.
//   - A job counts in one partition: in the one that it was started in, or the first of those that
//     it waits for. slurmctld's own value is the one that its schedulers looked at last, which
//     changes from minute to minute.
//   - slurm_jobs and those by user or account have jobs that ended less than MinJobAge ago.
//     slurm_partition_jobs has none of them.
//   - …_jobs_cpus_alloc, _gpus_alloc, _memory_alloc and _nodes_alloc are those of jobs that are
//     RUNNING or SUSPENDED.
//
// They differ where the help says so: in bytes and seconds, in counts that wrap in slurmctld, and in
// slurm_nodes_powering_up, which in slurmctld shows the nodes that are powering down.

// nativeJobs are about the cluster after "slurm_", and about one partition, user or account after
// "slurm_partition_", "slurm_user_" or "slurm_account_".
var nativeJobs = []metric[jobCounts]{
	{"jobs_bootfail", "Jobs in state BOOT_FAIL", jobState("BOOT_FAIL")},
	{"jobs_cancelled", "Jobs in state CANCELLED", jobState("CANCELLED")},
	{"jobs_completed", "Jobs in state COMPLETED", jobState("COMPLETED")},
	{"jobs_completing", "Jobs with flag COMPLETING", jobFlag("COMPLETING")},
	{"jobs_configuring", "Jobs with flag CONFIGURING", jobFlag("CONFIGURING")},
	{"jobs_cpus_alloc", "CPUs that jobs have (Slurm's own value wraps at 65536)", func(c *jobCounts) float64 { return float64(c.cpus) }},
	{"jobs_deadline", "Jobs in state DEADLINE", jobState("DEADLINE")},
	{"jobs_expediting", "Jobs with flag EXPEDITING", jobFlag("EXPEDITING")},
	{"jobs_failed", "Jobs in state FAILED", jobState("FAILED")},
	{"jobs_fed_requeued", "Jobs that the federation requeues", jobFlag("REQUEUE_FED")},
	{"jobs_finished", "Jobs that have ended, in whatever state", func(c *jobCounts) float64 { return float64(c.finished) }},
	{"jobs_gpus_alloc", "GPUs that jobs have", func(c *jobCounts) float64 { return float64(c.gpus) }},
	{
		"jobs_hold", "Pending jobs that a user or an administrator holds; each task of an array counts",
		func(c *jobCounts) float64 { return float64(c.heldTasks) },
	},
	{
		"jobs_memory_alloc", "Memory that jobs have, in bytes (Slurm's own value is in MiB)",
		func(c *jobCounts) float64 { return inBytes(c.memory) },
	},
	{"jobs_node_failed", "Jobs in state NODE_FAIL", jobState("NODE_FAIL")},
	{"jobs_outofmemory", "Jobs in state OUT_OF_MEMORY", jobState("OUT_OF_MEMORY")},
	{"jobs_pending", "Jobs in state PENDING; each task of an array counts", func(c *jobCounts) float64 { return float64(c.pendingTasks) }},
	{"jobs_powerup_node", "Jobs that wait for nodes to power up", jobFlag("POWER_UP_NODE")},
	{"jobs_preempted", "Jobs in state PREEMPTED", jobState("PREEMPTED")},
	{"jobs_requeued", "Jobs with flag REQUEUED", jobFlag("REQUEUED")},
	{"jobs_resizing", "Jobs with flag RESIZING", jobFlag("RESIZING")},
	{"jobs_revoked", "Jobs with flag REVOKED: another cluster of the federation has started them", jobFlag("REVOKED")},
	{"jobs_running", "Jobs in state RUNNING", jobState("RUNNING")},
	{"jobs_signaling", "Jobs that are being signaled", jobFlag("SIGNALING")},
	{"jobs_stageout", "Jobs with flag STAGE_OUT", jobFlag("STAGE_OUT")},
	{"jobs_started", "Jobs that are not pending, ended ones included", func(c *jobCounts) float64 { return float64(c.started) }},
	{"jobs_suspended", "Jobs in state SUSPENDED", jobState("SUSPENDED")},
	{"jobs_timeout", "Jobs in state TIMEOUT", jobState("TIMEOUT")},
}

// nativeClusterJobs are about the cluster alone.
var nativeClusterJobs = []metric[jobCounts]{
	{
		"jobs", "Jobs that slurmctld knows, ended ones included; each waiting task of an array counts",
		func(c *jobCounts) float64 { return float64(c.tasks) },
	},
	{"jobs_nodes_alloc", nodesAllocHelp, func(c *jobCounts) float64 { return float64(c.nodeBits.count()) }},
}

// nativeOwnerJobs are about one user or account.
var nativeOwnerJobs = []metric[jobCounts]{
	{
		"jobs", "Jobs that slurmctld knows, ended ones included; all waiting tasks of an array count as one",
		func(c *jobCounts) float64 { return float64(c.records) },
	},
	{"jobs_nodes_alloc", nodesAllocHelp, func(c *jobCounts) float64 { return float64(c.nodeBits.count()) }},
}

const nodesAllocHelp = "Nodes that jobs have, each counted once (Slurm 25.11's own value counts a node for each of its jobs)"

// nativeNodes are about the nodes of the cluster.
var nativeNodes = []metric[nodeCounts]{
	{"nodes", "Nodes", func(c *nodeCounts) float64 { return float64(c.nodes) }},
	{"nodes_alloc", "Nodes in state ALLOCATED", nodeState("ALLOCATED")},
	{"nodes_blocked", "Nodes with flag BLOCKED: a job has their topology block alone", nodeFlag("BLOCKED")},
	{"nodes_cloud", "Nodes with flag CLOUD", nodeFlag("CLOUD")},
	{"nodes_completing", "Nodes with flag COMPLETING", nodeFlag("COMPLETING")},
	{"nodes_down", "Nodes in state DOWN", nodeState("DOWN")},
	{
		"nodes_drain", "Nodes that are drained and have no jobs, as slurm_nodes_drained",
		func(c *nodeCounts) float64 { return float64(c.drained) },
	},
	{"nodes_drained", "Nodes that are drained and have no jobs", func(c *nodeCounts) float64 { return float64(c.drained) }},
	{"nodes_draining", "Nodes that are drained and still have jobs", func(c *nodeCounts) float64 { return float64(c.draining) }},
	{"nodes_dyn_future", "Nodes with flag DYNAMIC_FUTURE", nodeFlag("DYNAMIC_FUTURE")},
	{"nodes_dyn_normal", "Nodes with flag DYNAMIC_NORM: they registered themselves", nodeFlag("DYNAMIC_NORM")},
	{"nodes_external", "Nodes with flag EXTERNAL", nodeFlag("EXTERNAL")},
	{"nodes_fail", "Nodes with flag FAIL", nodeFlag("FAIL")},
	{"nodes_future", "Nodes in state FUTURE", nodeState("FUTURE")},
	{"nodes_idle", "Nodes in state IDLE, whatever flags they have", nodeState("IDLE")},
	{"nodes_invalid_reg", "Nodes with flag INVALID_REG: slurmctld has refused their registration", nodeFlag("INVALID_REG")},
	{"nodes_maint", "Nodes in a maintenance reservation", nodeFlag("MAINTENANCE")},
	{"nodes_mixed", "Nodes in state MIXED", nodeState("MIXED")},
	{"nodes_noresp", "Nodes that do not respond", nodeFlag("NOT_RESPONDING")},
	{"nodes_planned", "Nodes that backfill plans for a job", nodeFlag("PLANNED")},
	{"nodes_power_down", "Nodes that somebody wants powered down", nodeFlag("POWER_DOWN")},
	{"nodes_power_up", "Nodes that somebody wants powered up", nodeFlag("POWER_UP")},
	{"nodes_powered_down", "Nodes that are powered down", nodeFlag("POWERED_DOWN")},
	{"nodes_powering_down", "Nodes that are powering down (Slurm has no such name)", nodeFlag("POWERING_DOWN")},
	{"nodes_powering_up", "Nodes that are powering up (Slurm's own value shows those that are powering down)", nodeFlag("POWERING_UP")},
	{"nodes_reboot_issued", "Nodes that are rebooting", nodeFlag("REBOOT_ISSUED")},
	{"nodes_reboot_req", "Nodes that wait for a reboot", nodeFlag("REBOOT_REQUESTED")},
	{"nodes_resv", "Nodes in a reservation that is active", nodeFlag("RESERVED")},
	{"nodes_unknown", "Nodes in state UNKNOWN", nodeState("UNKNOWN")},
}

// nativePartitionNodes are about the nodes of one partition.
var nativePartitionNodes = []metric[nodeCounts]{
	{"partition_nodes_alloc", "Nodes in state ALLOCATED", nodeState("ALLOCATED")},
	{"partition_nodes_blocked", "Nodes with flag BLOCKED: a job has their topology block alone", nodeFlag("BLOCKED")},
	{"partition_nodes_cloud", "Nodes with flag CLOUD", nodeFlag("CLOUD")},
	{"partition_nodes_cg", "Nodes with flag COMPLETING", nodeFlag("COMPLETING")},
	{"partition_nodes_down", "Nodes in state DOWN", nodeState("DOWN")},
	{
		"partition_nodes_drain", "Nodes that are drained and have no jobs, as slurm_partition_nodes_drained",
		func(c *nodeCounts) float64 { return float64(c.drained) },
	},
	{"partition_nodes_drained", "Nodes that are drained and have no jobs", func(c *nodeCounts) float64 { return float64(c.drained) }},
	{"partition_nodes_draining", "Nodes that are drained and still have jobs", func(c *nodeCounts) float64 { return float64(c.draining) }},
	{"partition_nodes_dyn_future", "Nodes with flag DYNAMIC_FUTURE", nodeFlag("DYNAMIC_FUTURE")},
	{"partition_nodes_dyn_normal", "Nodes with flag DYNAMIC_NORM: they registered themselves", nodeFlag("DYNAMIC_NORM")},
	{"partition_nodes_external", "Nodes with flag EXTERNAL", nodeFlag("EXTERNAL")},
	{"partition_nodes_fail", "Nodes with flag FAIL", nodeFlag("FAIL")},
	{"partition_nodes_future", "Nodes in state FUTURE", nodeState("FUTURE")},
	{"partition_nodes_idle", "Nodes in state IDLE, whatever flags they have", nodeState("IDLE")},
	{"partition_nodes_invalid_reg", "Nodes with flag INVALID_REG: slurmctld has refused their registration", nodeFlag("INVALID_REG")},
	{"partition_nodes_maint", "Nodes in a maintenance reservation", nodeFlag("MAINTENANCE")},
	{"partition_nodes_mixed", "Nodes in state MIXED", nodeState("MIXED")},
	{"partition_nodes_no_resp", "Nodes that do not respond", nodeFlag("NOT_RESPONDING")},
	{"partition_nodes_planned", "Nodes that backfill plans for a job", nodeFlag("PLANNED")},
	{"partition_nodes_power_down", "Nodes that somebody wants powered down", nodeFlag("POWER_DOWN")},
	{"partition_nodes_power_up", "Nodes that somebody wants powered up", nodeFlag("POWER_UP")},
	{"partition_nodes_powered_down", "Nodes that are powered down", nodeFlag("POWERED_DOWN")},
	{"partition_nodes_powering_down", "Nodes that are powering down", nodeFlag("POWERING_DOWN")},
	{"partition_nodes_powering_up", "Nodes that are powering up", nodeFlag("POWERING_UP")},
	{"partition_nodes_reboot_issued", "Nodes that are rebooting", nodeFlag("REBOOT_ISSUED")},
	{"partition_nodes_reboot_requested", "Nodes that wait for a reboot", nodeFlag("REBOOT_REQUESTED")},
	{"partition_nodes_resv", "Nodes in a reservation that is active", nodeFlag("RESERVED")},
	{"partition_nodes_unknown", "Nodes in state UNKNOWN", nodeState("UNKNOWN")},
}

// nativePartitions count the partitions.
var nativePartitions = []metric[clusterview.View]{
	{"partitions", "Partitions", func(v *clusterview.View) float64 { return float64(len(v.Partitions)) }},
}

// The following are about one partition, by its record, its nodes and its jobs.

var nativePartition = []metric[partitionCounts]{
	{"partition_cpus", "CPUs of the partition", func(p *partitionCounts) float64 { return float64(p.record.CPUs) }},
	{"partition_nodes", "Nodes of the partition", func(p *partitionCounts) float64 { return float64(p.record.Nodes) }},
}

var nativePartitionSizes = []metric[partitionCounts]{
	{"partition_gpus", "GPUs of the partition's nodes", func(p *partitionCounts) float64 { return float64(p.nodes.gpus) }},
	{
		"partition_nodes_cpus_alloc", "CPUs of the partition's nodes that jobs have (Slurm's own value wraps at 65536)",
		func(p *partitionCounts) float64 { return float64(p.nodes.cpusAlloc) },
	},
	{
		"partition_nodes_cpus_efctv",
		"CPUs of the partition's nodes for jobs, without specialized ones (Slurm's own value wraps at 65536)",
		func(p *partitionCounts) float64 { return float64(p.nodes.cpusEffective) },
	},
	{
		"partition_nodes_cpus_idle",
		"CPUs of the partition's nodes for jobs that no job has (Slurm's own value wraps at 65536)",
		func(p *partitionCounts) float64 { return float64(p.nodes.cpusIdle) },
	},
	{
		"partition_nodes_mem_alloc",
		"Memory of the partition's nodes that jobs have, in bytes (Slurm's own value is in MiB)",
		func(p *partitionCounts) float64 { return inBytes(p.nodes.memoryAlloc) },
	},
	{
		"partition_nodes_mem_avail",
		"Memory of the partition's nodes for jobs, without specialized memory, in bytes (Slurm's own value is in MiB)",
		func(p *partitionCounts) float64 { return inBytes(p.nodes.memoryEffective) },
	},
	{
		"partition_nodes_mem_free",
		"Memory that the kernels of the partition's nodes say is free, in bytes (Slurm's own value is in MiB)",
		func(p *partitionCounts) float64 { return inBytes(p.nodes.memoryFree) },
	},
	{
		"partition_nodes_mem_tot", "Memory of the partition's nodes, in bytes (Slurm's own value is in MiB)",
		func(p *partitionCounts) float64 { return inBytes(p.nodes.memory) },
	},
}

var nativePartitionJobs = []metric[partitionCounts]{
	{
		"partition_jobs", "Jobs that have not ended, or are COMPLETING; all waiting tasks of an array count as one",
		func(p *partitionCounts) float64 { return float64(p.jobs.unfinished) },
	},
	{
		"partition_jobs_max_job_nodes", "The most nodes that a pending job can use",
		func(p *partitionCounts) float64 { return float64(p.jobs.maxNodes) },
	},
	{
		"partition_jobs_max_job_nodes_nohold", "The most nodes that a pending job can use that nobody holds",
		func(p *partitionCounts) float64 { return float64(p.jobs.maxNodesNoHold) },
	},
	{
		"partition_jobs_min_job_nodes",
		"The most nodes that a pending job needs, as slurmctld estimates it (Slurm's own value is what the job " +
			"asked for)", func(p *partitionCounts) float64 { return float64(p.jobs.minNodes) },
	},
	{
		"partition_jobs_min_job_nodes_nohold",
		"The most nodes that a pending job needs that nobody holds, as slurmctld estimates it (Slurm's own value " +
			"is what the job asked for)", func(p *partitionCounts) float64 { return float64(p.jobs.minNodesNoHold) },
	},
	{
		"partition_jobs_wait_part_node_limit",
		"Jobs that wait for reason PartitionNodeLimit (Slurm's own value counts half of all other reasons too)",
		func(p *partitionCounts) float64 { return float64(p.jobs.partitionNodeLimit) },
	},
}

// nativeNode are about one node.
var nativeNode = []metric[slurm.Node]{
	{"node_cpus", "CPUs of the node", func(n *slurm.Node) float64 { return float64(n.CPUs) }},
	{"node_cpus_alloc", "CPUs that jobs have", func(n *slurm.Node) float64 { return float64(n.CPUsAlloc) }},
	{"node_cpus_effective", "CPUs for jobs, without specialized ones", func(n *slurm.Node) float64 { return float64(n.CPUsEffective) }},
	{"node_cpus_idle", "CPUs for jobs that no job has", func(n *slurm.Node) float64 { return float64(n.CPUsEffective - n.CPUsAlloc) }},
	{"node_gpus", "GPUs of the node", func(n *slurm.Node) float64 { return float64(n.GPUs) }},
	{"node_gpus_alloc", "GPUs that jobs have", func(n *slurm.Node) float64 { return float64(n.GPUsAlloc) }},
	{
		"node_memory_alloc_bytes", "Memory that jobs have, in bytes (Slurm's own value is in MiB)",
		func(n *slurm.Node) float64 { return inBytes(n.MemoryAlloc) },
	},
	{
		"node_memory_bytes", "Memory of the node, in bytes (Slurm's own value is in MiB)",
		func(n *slurm.Node) float64 { return inBytes(n.RealMemory) },
	},
	{
		"node_memory_effective_bytes",
		"Memory for jobs, without specialized memory, in bytes (Slurm's own value is in MiB)",
		func(n *slurm.Node) float64 { return inBytes(n.MemoryEffective) },
	},
	{
		"node_memory_free_bytes",
		"Memory that the node's kernel says is free, 0 where slurmd has not told it, in bytes (Slurm's own value " +
			"is in MiB)", func(n *slurm.Node) float64 { return inBytes(max(n.MemoryFree, 0)) },
	},
}
