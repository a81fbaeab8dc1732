package series

import (
	"github.com/slurmlet/slurmlet/internal/slurm"
)

var oldNodes = []metric[nodeCounts]{
	{"node_total", "Nodes", func(c *nodeCounts) float64 { return float64(c.nodes) }},
	{"alloc_nodes", "Nodes in state ALLOCATED", nodeState("ALLOCATED")},
	{"completing_nodes", "Nodes with flag COMPLETING", nodeFlag("COMPLETING")},
	{"down_nodes", "Nodes in state DOWN", nodeState("DOWN")},
	{"drain_nodes", "Nodes with flag DRAIN", nodeFlag("DRAIN")},
	{"err_nodes", "Nodes in state ERROR", nodeState("ERROR")},
	{"idle_nodes", "Nodes in state IDLE", nodeState("IDLE")},
	{"maintenance_nodes", "Nodes with flag MAINTENANCE", nodeFlag("MAINTENANCE")},
	{"mixed_nodes", "Nodes in state MIXED", nodeState("MIXED")},
	{"reserved_nodes", "Nodes with flag RESERVED", nodeFlag("RESERVED")},
}

var oldNode = []metric[slurm.Node]{
	{"node_cpus", "CPUs of the node", func(n *slurm.Node) float64 { return float64(n.CPUs) }},
	{"node_idle_cpus", "CPUs of the node that no job has", func(n *slurm.Node) float64 { return float64(n.CPUsEffective - n.CPUsAlloc) }},
	{"node_alloc_cpus", "CPUs of the node that jobs have", func(n *slurm.Node) float64 { return float64(n.CPUsAlloc) }},
}

var oldPartition = []metric[partitionCounts]{
	{"partition_nodes", "Nodes of the partition", func(p *partitionCounts) float64 { return float64(p.record.Nodes) }},
	{"partition_cpus", "CPUs of the partition", func(p *partitionCounts) float64 { return float64(p.record.CPUs) }},
}

var oldPartitionNodes = []metric[partitionCounts]{
	{
		"partition_idle_cpus", "CPUs of the partition's nodes that no job has",
		func(p *partitionCounts) float64 { return float64(p.nodes.cpusIdle) },
	},
	{
		"partition_alloc_cpus", "CPUs of the partition's nodes that jobs have",
		func(p *partitionCounts) float64 { return float64(p.nodes.cpusAlloc) },
	},
}

var oldPartitionJobs = []metric[partitionCounts]{
	{
		"partition_jobs", "Jobs that are not COMPLETED, CANCELLED or COMPLETING",
		func(p *partitionCounts) float64 { return float64(p.listed.old.current) },
	},
	{
		"partition_pending_jobs", "Jobs that are PENDING and not held",
		func(p *partitionCounts) float64 { return float64(p.listed.old.pendingNoHold) },
	},
	{
		"partition_max_pending_nodes",
		"The most nodes that a pending job wants that is not held and became eligible in the last year",
		func(p *partitionCounts) float64 { return float64(p.listed.old.maxNodesLately) },
	},
	{"partition_running_jobs", "Jobs in state RUNNING", func(p *partitionCounts) float64 { return jobState("RUNNING")(&p.listed) }},
	{"partition_hold_jobs", "Jobs with priority 0", func(p *partitionCounts) float64 { return float64(p.listed.old.held) }},
}

var oldUser = []metric[jobCounts]{
	{
		"job_total", "Jobs of the user that are not COMPLETED, CANCELLED or COMPLETING",
		func(c *jobCounts) float64 { return float64(c.old.current) },
	},
	{
		"user_pending_jobs", "Jobs of the user that are PENDING and not held",
		func(c *jobCounts) float64 { return float64(c.old.pendingNoHold) },
	},
	{"user_running_jobs", "Jobs of the user in state RUNNING", jobState("RUNNING")},
	{"user_hold_jobs", "Jobs of the user with priority 0", func(c *jobCounts) float64 { return float64(c.old.held) }},
}
