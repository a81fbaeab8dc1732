// Package clusterview asks slurmctld what its cluster does: nodes, jobs, partitions,
// reservations, licenses, the scheduler's own figures, and shares. It does no arithmetic.
//
// Slurm's own commands ask. A View is what they have answered, in little memory, with the time of
// each answer.
package clusterview
