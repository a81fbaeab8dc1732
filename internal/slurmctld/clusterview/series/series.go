package series

import (
	"io"
	"slices"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// Options say which series there are.
type Options struct {
	// Users is how many users, accounts and associations have series of their own. At 0 no series
	// has the name of one.
	Users int
}

// Page is one of the texts that there are of a View.
type Page int

// The pages.
const (
	// Native has Slurm's own names, and slurmlet_cluster_….
	Native Page = iota
	// Exporter has slurm-exporter's names.
	Exporter
	pageCount
)

// write writes one page.
func (p Page) write(to io.Writer, v *clusterview.View, c *counts, h *history, o Options) error {
	w := exposition.NewWriter(to)
	answered := func(f clusterview.Family) bool { return !v.Readings[f].At.IsZero() }
	if p == Exporter {
		writeExporter(page{w, "slurm_", func(string) exposition.Kind { return exposition.Gauge }}, v, c, answered)
	} else {
		writeNative(page{w, "slurm_", exposition.KindOf}, v, c, answered)
		writeCluster(page{w, "slurmlet_cluster_", exposition.KindOf}, v, c, h, o, answered)
	}
	return w.Flush()
}

func writeNative(p page, v *clusterview.View, c *counts, answered func(clusterview.Family) bool) {
	nodes, jobs, partitions := answered(clusterview.FamilyNodes), answered(clusterview.FamilyJobs), labelledPartitions(c.partitions)
	if jobs {
		add(p, nativeClusterJobs, alone(&c.jobs))
		add(p, nativeJobs, alone(&c.jobs))
		add(p, within("partition_", nativeJobs, jobsOf), partitions)
		add(p, nativePartitionJobs, partitions)
		ofOwners := slices.Concat(nativeOwnerJobs, nativeJobs)
		add(p, within("user_", ofOwners, itself[jobCounts]), labelledOwners(c.users, "username", nameOf))
		add(p, within("account_", ofOwners, itself[jobCounts]), labelledOwners(c.accounts, "account", nameOf))
	}
	if nodes {
		add(p, nativeNodes, alone(&c.nodes))
		add(p, nativeNode, labelledNodes(v.Nodes))
		add(p, within("", nativePartitionNodes, nodesOf), partitions)
		add(p, nativePartitionSizes, partitions)
	}
	if answered(clusterview.FamilyPartitions) {
		add(p, nativePartitions, alone(v))
		add(p, nativePartition, partitions)
	}
	if v.Scheduler != nil {
		add(p, nativeScheduler, alone(v.Scheduler))
	}
}

func writeCluster(p page, v *clusterview.View, c *counts, h *history, o Options, answered func(clusterview.Family) bool) {
	addFamilies(p, ofView, v)
	addFamilies(p, ofCounts, c)
	if answered(clusterview.FamilyJobs) {
		addHistogram(p, "jobs_waiting_seconds", waitingHelp, c.partitions, c.waits)
		addHistogram(p, "job_wait_seconds", waitHelp, c.partitions, h.waits)
		addFamilies(p, ofHistory(c.partitions), h)
	}
	add(p, within("share_", ofShares, itself[clusterview.Share]), labelledShares(v.Shares, o.Users))
}

func writeExporter(p page, v *clusterview.View, c *counts, answered func(clusterview.Family) bool) {
	nodes, jobs, partitions := answered(clusterview.FamilyNodes), answered(clusterview.FamilyJobs), labelledPartitions(c.partitions)
	if jobs {
		add(p, exporterJobs, alone(&c.jobs))
		add(p, within("partition_", exporterJobs, listedOf), partitions)
		add(p, within("user_", exporterJobs, itself[jobCounts]), labelledOwners(c.users, "userid,username", uidAndNameOf))
		add(p, within("account_", exporterJobs, itself[jobCounts]), labelledOwners(c.accounts, "account", nameOf))
		add(p, exporterPartition, partitions)
		add(p, oldPartitionJobs, partitions)
		add(p, oldUser, labelledOwners(c.users, "user", nameOf))
	}
	if nodes {
		add(p, exporterNodes, alone(&c.nodes))
		add(p, within("partition_", exporterNodes, nodesOf), partitions)
		add(p, within("partition_nodes_", exporterSizes, nodesOf), partitions)
		add(p, within("node_", exporterNode, itself[slurm.Node]), labelledNodes(v.Nodes))
		add(p, oldNodes, alone(&c.nodes))
		add(p, oldNode, labelledNodes(v.Nodes))
		add(p, oldPartitionNodes, partitions)
	}
	if answered(clusterview.FamilyPartitions) {
		add(p, oldPartition, partitions)
	}
	if v.Scheduler != nil {
		add(p, exporterScheduler, alone(v.Scheduler))
	}
}

func itself[T any](t *T) *T { return t }
