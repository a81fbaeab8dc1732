package series

import (
	"math"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// These tables have the metrics of slurm-exporter (github.com/SlinkyProject/slurm-exporter), which
// dashboards and autoscalers ask for. They are gauges with slurm-exporter's units, whatever their
// names end in, and they count by its rules:
//
//   - A job counts in each partition that it waits for. Version 0.1 counted such a job nowhere,
//     which was a fault.
//   - All waiting tasks of an array count as one job.
//   - A job is held if its priority is 0.
//
// The fields of JSON that slurm-exporter never sent (…_jobs_stageout_total of users and accounts)
// are here.

// The tables of version 0.3.

// exporterJobs are about the cluster after "slurm_", and about one partition, user or account after
// "slurm_partition_", "slurm_user_" or "slurm_account_".
var exporterJobs = []metric[jobCounts]{
	{"jobs_total", "Jobs that slurmctld knows", func(c *jobCounts) float64 { return float64(c.records) }},
	{"jobs_bootfail_total", "Jobs in state BOOT_FAIL", jobState("BOOT_FAIL")},
	{"jobs_cancelled_total", "Jobs in state CANCELLED", jobState("CANCELLED")},
	{"jobs_completed_total", "Jobs in state COMPLETED", jobState("COMPLETED")},
	{"jobs_deadline_total", "Jobs in state DEADLINE", jobState("DEADLINE")},
	{"jobs_failed_total", "Jobs in state FAILED", jobState("FAILED")},
	{"jobs_pending_total", "Jobs in state PENDING, held ones included", jobState("PENDING")},
	{"jobs_preempted_total", "Jobs in state PREEMPTED", jobState("PREEMPTED")},
	{"jobs_running_total", "Jobs in state RUNNING", jobState("RUNNING")},
	{"jobs_suspended_total", "Jobs in state SUSPENDED", jobState("SUSPENDED")},
	{"jobs_timeout_total", "Jobs in state TIMEOUT", jobState("TIMEOUT")},
	{"jobs_nodefail_total", "Jobs in state NODE_FAIL", jobState("NODE_FAIL")},
	{"jobs_outofmemory_total", "Jobs in state OUT_OF_MEMORY", jobState("OUT_OF_MEMORY")},
	{"jobs_completing_total", "Jobs with flag COMPLETING", jobFlag("COMPLETING")},
	{"jobs_configuring_total", "Jobs with flag CONFIGURING", jobFlag("CONFIGURING")},
	{"jobs_powerupnode_total", "Jobs that wait for nodes to power up", jobFlag("POWER_UP_NODE")},
	{"jobs_stageout_total", "Jobs with flag STAGE_OUT", jobFlag("STAGE_OUT")},
	{"jobs_hold_total", "Jobs with priority 0", func(c *jobCounts) float64 { return float64(c.old.held) }},
	{"jobs_cpus_alloc_total", "CPUs that jobs have", func(c *jobCounts) float64 { return float64(c.cpus) }},
	{"jobs_memory_alloc_bytes", "Memory that jobs have, in MiB", func(c *jobCounts) float64 { return float64(c.memory) }},
}

// exporterNodes are about the cluster after "slurm_", and about one partition after "slurm_partition_".
var exporterNodes = []metric[nodeCounts]{
	{"nodes_total", "Nodes", func(c *nodeCounts) float64 { return float64(c.nodes) }},
	{"nodes_allocated_total", "Nodes in state ALLOCATED", nodeState("ALLOCATED")},
	{"nodes_down_total", "Nodes in state DOWN", nodeState("DOWN")},
	{"nodes_error_total", "Nodes in state ERROR", nodeState("ERROR")},
	{"nodes_future_total", "Nodes in state FUTURE", nodeState("FUTURE")},
	{"nodes_idle_total", "Nodes in state IDLE", nodeState("IDLE")},
	{"nodes_mixed_total", "Nodes in state MIXED", nodeState("MIXED")},
	{"nodes_unknown_total", "Nodes in state UNKNOWN", nodeState("UNKNOWN")},
	{"nodes_completing_total", "Nodes with flag COMPLETING", nodeFlag("COMPLETING")},
	{"nodes_drain_total", "Nodes with flag DRAIN", nodeFlag("DRAIN")},
	{"nodes_fail_total", "Nodes with flag FAIL", nodeFlag("FAIL")},
	{"nodes_maintenance_total", "Nodes with flag MAINTENANCE", nodeFlag("MAINTENANCE")},
	{"nodes_notresponding_total", "Nodes with flag NOT_RESPONDING", nodeFlag("NOT_RESPONDING")},
	{"nodes_planned_total", "Nodes with flag PLANNED", nodeFlag("PLANNED")},
	{"nodes_rebootrequested_total", "Nodes with flag REBOOT_REQUESTED", nodeFlag("REBOOT_REQUESTED")},
	{"nodes_reserved_total", "Nodes with flag RESERVED", nodeFlag("RESERVED")},
}

// exporterSizes are about the nodes of one partition after "slurm_partition_nodes_".
var exporterSizes = []metric[nodeCounts]{
	{"cpus_total", "CPUs", func(c *nodeCounts) float64 { return float64(c.cpus) }},
	{"cpus_effective_total", "CPUs for jobs, without specialized ones", func(c *nodeCounts) float64 { return float64(c.cpusEffective) }},
	{"cpus_alloc_total", "CPUs that jobs have", func(c *nodeCounts) float64 { return float64(c.cpusAlloc) }},
	{"cpus_idle_total", "CPUs that no job has", func(c *nodeCounts) float64 { return float64(c.cpusIdle) }},
	{"memory_bytes", "Memory, in MiB", func(c *nodeCounts) float64 { return float64(c.memory) }},
	{
		"memory_effective_bytes", "Memory for jobs, without specialized memory, in MiB",
		func(c *nodeCounts) float64 { return float64(c.memoryEffective) },
	},
	{"memory_alloc_bytes", "Memory that jobs have, in MiB", func(c *nodeCounts) float64 { return float64(c.memoryAlloc) }},
	{"memory_free_bytes", "Memory that the kernel says is free, in MiB", func(c *nodeCounts) float64 { return float64(c.memoryFree) }},
}

// exporterNode are about one node after "slurm_node_".
var exporterNode = []metric[slurm.Node]{
	{"cpus_total", "CPUs", func(n *slurm.Node) float64 { return float64(n.CPUs) }},
	{"cpus_effective_total", "CPUs for jobs, without specialized ones", func(n *slurm.Node) float64 { return float64(n.CPUsEffective) }},
	{"cpus_alloc_total", "CPUs that jobs have", func(n *slurm.Node) float64 { return float64(n.CPUsAlloc) }},
	{"cpus_idle_total", "CPUs that no job has", func(n *slurm.Node) float64 { return float64(n.CPUsEffective - n.CPUsAlloc) }},
	{"memory_bytes", "Memory, in MiB", func(n *slurm.Node) float64 { return float64(n.RealMemory) }},
	{
		"memory_effective_bytes", "Memory for jobs, without specialized memory, in MiB",
		func(n *slurm.Node) float64 { return float64(n.MemoryEffective) },
	},
	{"memory_alloc_bytes", "Memory that jobs have, in MiB", func(n *slurm.Node) float64 { return float64(n.MemoryAlloc) }},
	{
		"memory_free_bytes", "Memory that the kernel says is free, in MiB",
		func(n *slurm.Node) float64 { return float64(max(n.MemoryFree, 0)) },
	},
}

// exporterPartition are about one partition alone.
var exporterPartition = []metric[partitionCounts]{
	{
		"partition_jobs_pending_maxnodecount_total", "The most nodes that a pending job wants that is not held",
		func(p *partitionCounts) float64 { return float64(p.listed.old.maxNodes) },
	},
}

// exporterScheduler are sdiag's.
var exporterScheduler = []metric[clusterview.Scheduler]{
	{
		"scheduler_cycle_depth_total", "Jobs that all cycles of the main scheduler looked at",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.DepthSum) },
	},
	{
		"scheduler_cycle_last_seconds", "How long the last cycle of the main scheduler took, in microseconds",
		func(s *clusterview.Scheduler) float64 { return inMicroseconds(s.Main.CycleLast) },
	},
	{
		"scheduler_cycle_max_seconds", "How long the longest cycle of the main scheduler took, in microseconds",
		func(s *clusterview.Scheduler) float64 { return inMicroseconds(s.Main.CycleMax) },
	},
	{
		"scheduler_cycle_mean_seconds", "How long a cycle of the main scheduler took on average, in microseconds",
		func(s *clusterview.Scheduler) float64 {
			return math.Floor(ratio(inMicroseconds(s.Main.CycleSum), s.Main.Cycles))
		},
	},
	{
		"scheduler_cycle_depth_mean_total", "Jobs that a cycle of the main scheduler looked at, on average",
		func(s *clusterview.Scheduler) float64 {
			return math.Floor(ratio(float64(s.Main.DepthSum), s.Main.Cycles))
		},
	},
	{
		"scheduler_cycle_perminute_total", "Cycles of the main scheduler in a minute",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.CyclesPerMinute) },
	},
	{
		"scheduler_cycle_sum_seconds_total", "How long all cycles of the main scheduler took, in microseconds",
		func(s *clusterview.Scheduler) float64 { return inMicroseconds(s.Main.CycleSum) },
	},
	{"scheduler_cycle_total", "Cycles of the main scheduler", func(s *clusterview.Scheduler) float64 { return float64(s.Main.Cycles) }},
	{
		"scheduler_queue_total", "Jobs that waited for the main scheduler",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.QueueLength) },
	},
	{
		"scheduler_defaultqueuedepth_total", "Cycles of the main scheduler that ended because of default_queue_depth",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.MainExits.DefaultQueueDepth) },
	},
	{
		"scheduler_endjobqueue_total", "Cycles of the main scheduler that ended because they had looked at all jobs",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.MainExits.EndOfQueue) },
	},
	{
		"scheduler_licenses_total", "Cycles of the main scheduler that ended because licenses blocked",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.MainExits.Licenses) },
	},
	{
		"scheduler_maxjobstart_total", "Cycles of the main scheduler that ended because of sched_max_job_start",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.MainExits.MaxJobStart) },
	},
	{
		"scheduler_maxrpc_total", "Cycles of the main scheduler that ended because of max_rpc_cnt",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.MainExits.MaxRPCCount) },
	},
	{
		"scheduler_maxschedtime_total", "Cycles of the main scheduler that ended because of max_sched_time",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.MainExits.MaxSchedTime) },
	},
	{"bfscheduler_active_bool", "1 while backfill runs", func(s *clusterview.Scheduler) float64 { return truth(s.Backfill.Active) }},
	{
		"bfscheduler_backfilledhetjobs_total", "Parts of heterogeneous jobs that backfill has started",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.HetJobs) },
	},
	{
		"bfscheduler_backfilledjobs_total", "Jobs that backfill has started since slurmctld began",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.Jobs) },
	},
	{"bfscheduler_cycle_total", "Cycles of backfill", func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.Cycles) }},
	{
		"bfscheduler_cycle_seconds", "How long the last cycle of backfill took, in microseconds",
		func(s *clusterview.Scheduler) float64 { return inMicroseconds(s.Backfill.CycleLast) },
	},
	{
		"bfscheduler_cycle_max_seconds", "How long the longest cycle of backfill took, in microseconds",
		func(s *clusterview.Scheduler) float64 { return inMicroseconds(s.Backfill.CycleMax) },
	},
	{
		"bfscheduler_cycle_mean_seconds", "How long a cycle of backfill took on average, in microseconds",
		func(s *clusterview.Scheduler) float64 {
			return math.Floor(ratio(inMicroseconds(s.Backfill.CycleSum), s.Backfill.Cycles))
		},
	},
	{
		"bfscheduler_cycle_sum_seconds", "How long all cycles of backfill took, in microseconds",
		func(s *clusterview.Scheduler) float64 { return inMicroseconds(s.Backfill.CycleSum) },
	},
	{"bfscheduler_depth_mean_total", "Jobs that a cycle of backfill looked at, on average", func(s *clusterview.Scheduler) float64 {
		return math.Floor(ratio(float64(s.Backfill.DepthSum), s.Backfill.Cycles))
	}},
	{"bfscheduler_depth_try_total", "Jobs that a cycle of backfill tried to start, on average", func(s *clusterview.Scheduler) float64 {
		return math.Floor(ratio(float64(s.Backfill.DepthSumTry), s.Backfill.Cycles))
	}},
	{
		"bfscheduler_depth_sum_total", "Jobs that all cycles of backfill looked at",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.DepthSum) },
	},
	{
		"bfscheduler_depth_trysum_total", "Jobs that all cycles of backfill tried to start",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.DepthSumTry) },
	},
	{
		"bfscheduler_lastbackfilledjobs_total", "Jobs that backfill has started since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.LastJobs) },
	},
	{
		"bfscheduler_lastdepth_total", "Jobs that the last cycle of backfill looked at",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.DepthLast) },
	},
	{
		"bfscheduler_lastdepthtry_total", "Jobs that the last cycle of backfill tried to start",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.DepthLastTry) },
	},
	{
		"bfscheduler_queue_total", "Jobs that waited for the last cycle of backfill",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.QueueLength) },
	},
	{"bfscheduler_queue_mean_total", "Jobs that waited for a cycle of backfill, on average", func(s *clusterview.Scheduler) float64 {
		return math.Floor(ratio(float64(s.Backfill.QueueLengthSum), s.Backfill.Cycles))
	}},
	{
		"bfscheduler_queue_sum_total", "Jobs that waited for all cycles of backfill, added up",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.QueueLengthSum) },
	},
	{
		"bfscheduler_table_total", "Time slots that the last cycle of backfill tested",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.TableSize) },
	},
	{"bfscheduler_tablemean_total", "Time slots that a cycle of backfill tested, on average", func(s *clusterview.Scheduler) float64 {
		return math.Floor(ratio(float64(s.Backfill.TableSizeSum), s.Backfill.Cycles))
	}},
	{
		"bfscheduler_tablesum_total", "Time slots that all cycles of backfill tested",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.TableSizeSum) },
	},
	{
		"bfscheduler_lastcycle_timestamp", "When the last cycle of backfill began",
		func(s *clusterview.Scheduler) float64 { return stamp(s.Backfill.LastCycleAt) },
	},
	{
		"bfscheduler_maxjobstart_total", "Cycles of backfill that ended because of bf_max_job_start",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.BackfillExits.MaxJobStart) },
	},
	{
		"bfscheduler_maxjobtest_total", "Cycles of backfill that ended because of bf_max_job_test",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.BackfillExits.MaxJobTest) },
	},
	{
		"bfscheduler_maxtime_total", "Cycles of backfill that ended because of bf_max_time",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.BackfillExits.MaxTime) },
	},
	{
		"bfscheduler_nodespace_total", "Cycles of backfill that ended because of bf_node_space_size",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.BackfillExits.NodeSpaceSize) },
	},
	{
		"bfscheduler_endjobqueue_total", "Cycles of backfill that ended because they had looked at all jobs",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.BackfillExits.EndOfQueue) },
	},
	{
		"bfscheduler_statechanged_total", "Cycles of backfill that ended because nodes, partitions or jobs changed",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.BackfillExits.StateChanged) },
	},
	{
		"scheduler_jobs_stats_timestamp", "When slurmctld counted the jobs of sdiag",
		func(s *clusterview.Scheduler) float64 { return stamp(s.SchedulerJobs.StatesAt) },
	},
	{
		"scheduler_jobs_canceled_total", "Jobs canceled since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.SchedulerJobs.Canceled) },
	},
	{
		"scheduler_jobs_completed_total", "Jobs completed since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.SchedulerJobs.Completed) },
	},
	{
		"scheduler_jobs_failed_total", "Jobs failed since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.SchedulerJobs.Failed) },
	},
	{
		"scheduler_jobs_pending_total", "Jobs pending, as slurmctld counted them",
		func(s *clusterview.Scheduler) float64 { return float64(s.SchedulerJobs.Pending) },
	},
	{
		"scheduler_jobs_running_total", "Jobs running, as slurmctld counted them",
		func(s *clusterview.Scheduler) float64 { return float64(s.SchedulerJobs.Running) },
	},
	{
		"scheduler_jobs_started_total", "Jobs started since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.SchedulerJobs.Started) },
	},
	{
		"scheduler_jobs_submitted_total", "Jobs submitted since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.SchedulerJobs.Submitted) },
	},
	{
		"scheduler_agent_total", "Agents of slurmctld, which send messages to nodes",
		func(s *clusterview.Scheduler) float64 { return float64(s.Agents) },
	},
	{
		"scheduler_agent_queue_total", "Messages of slurmctld to nodes that wait for one of slurmctld's own agents",
		func(s *clusterview.Scheduler) float64 { return float64(s.AgentQueue) },
	},
	{"scheduler_agent_thread_total", "Threads of all agents", func(s *clusterview.Scheduler) float64 { return float64(s.AgentThreads) }},
	{
		"scheduler_thread_total", "Threads of slurmctld that work on requests",
		func(s *clusterview.Scheduler) float64 { return float64(s.Threads) },
	},
	{
		"scheduler_dbdagentqueue_total", "Messages that wait for slurmdbd",
		func(s *clusterview.Scheduler) float64 { return float64(s.DBDQueue) },
	},
}

// The tables of versions 0.1 and 0.2.

func inBytes(mebi int64) float64 { return float64(mebi << 20) }

func inMicroseconds(d time.Duration) float64 { return float64(d.Microseconds()) }
