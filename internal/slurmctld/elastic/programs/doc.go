// Package programs is the programs that slurmctld runs where there are elastic node sets: ResumeProgram,
// SuspendProgram, ResumeFailProgram and PrologSlurmctld. Each is a link to slurmlet in SLURMLET_RUN_DIR, and asks
// the agent beside slurmctld, or waits for it, over a socket of slurmctld's user.
package programs
