// Package e2e tests slurmlet with real Slurm: real daemons in real containers
// with real cgroup v2, in the sandbox (e2e/sandbox). Build tag e2e;
// "make e2e" builds what they stand on and runs them for every Slurm version.
//
// SLURMLET_E2E_FULL=1 runs what is repeated as often as it was promised: 200
// steps out of memory in a row, 2000 short steps, and 200 starts of slurmd.
package e2e
