// Package waitnodes answers wait-nodes, the PrologSlurmctld of clusters with elastic node sets: it answers each job when
// its nodes are up, so that slurmctld starts the job at once and not up to 30 s later.
package waitnodes
