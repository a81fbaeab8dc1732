// Package slurmctld is what the agent does in slurmctld's pod alone, beside the life of the daemon. Pod holds the parts
// of it together, each of which is a package of its own:
//
//   - reconfig takes slurm.conf from an edit to live.
//   - clusterview asks what the cluster does, and clusterview/series writes it for Prometheus.
//   - savedstate looks after what slurmctld saves.
//   - records, keptrecords and noderecords look after the node records whose pods are gone.
//   - elasticnodes, elastic, waitnodes and programs are for the nodes that Slurm itself starts and ends.
//   - merge makes the changes that the nodes' agents ask for, many as one.
package slurmctld
