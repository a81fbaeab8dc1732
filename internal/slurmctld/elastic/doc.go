// Package elastic plans what becomes of the records of elastic node sets: nodes that Slurm itself starts and
// ends (State=CLOUD, slurm.conf(5) SuspendProgram). A set is a range of names, and what one node of it has.
//
// Nothing here asks anybody, and nothing knows the time. internal/slurmctld/elasticnodes and
// internal/slurmctld/waitnodes bring what slurmctld, the mounted files and slurmlet's controller have said.
// internal/slurmctld/elasticnodes does what a Plan says.
package elastic
