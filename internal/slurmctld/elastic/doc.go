// Package elastic keeps the records of elastic nodes as their sets say, in slurmctld's agent: it reads the sets, looks at
// slurmctld's nodes, makes the changes that its planner plans, and reports to slurmlet's controller which nodes Slurm wants.
// Beside it, programs are the programs that slurmctld runs, and waitnodes answers those of them that wait.
package elastic
