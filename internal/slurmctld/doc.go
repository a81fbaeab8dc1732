// Package slurmctld is what the agent does in slurmctld's pod alone, beside the life of the daemon. Pod holds the parts
// of it together, each of which is a package of its own:
//
//   - reconfig takes slurm.conf from an edit to live.
//   - clusterview asks what the cluster does, and clusterview/series writes it for Prometheus.
//   - savedstate looks after what slurmctld saves.
//   - gonepods looks after the node records whose pods are gone, and gonepods/kept after those of them that stay.
//   - elastic looks after the nodes that Slurm itself starts and ends, and has the programs for that.
//   - accounts brings slurmdbd's accounts into step with a file.
//   - leavers.go has the jobs of those end who have left (internal/pod/people).
//   - gonepods/planner, elastic/planner and accounts/planner are pure: they plan, and ask nobody.
//   - merge makes the changes that the nodes' agents ask for, many as one.
package slurmctld
