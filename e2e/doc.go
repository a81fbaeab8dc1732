// Package e2e tests slurmlet with real Slurm: real daemons in real containers
// in the sandbox (e2e/testbed/sandbox), with real cgroup v2 where a case needs it. Build
// tag e2e; "make e2e" builds what they stand on and runs them.
//
// SLURMLET_E2E_FULL=1 runs every case on every Slurm version, also those that need
// minutes and a machine for themselves. It repeats as often as it was promised: 200
// steps out of memory in a row, 2000 short steps, and 200 starts of slurmd.
package e2e
