// Package planner plans what becomes of the records of elastic node sets: nodes that Slurm itself starts and
// ends (State=CLOUD, slurm.conf(5) SuspendProgram). A set is a range of names, and what one node of it has.
//
// Nothing here asks anybody, and nothing knows the time. Packages elastic and waitnodes bring what slurmctld, the mounted
// files and slurmlet's controller have said, and elastic does what a Plan says.
package planner
