// Package e2e tests slurmlet with real Slurm: real daemons in real containers
// with real cgroup v2, in the sandbox (internal/sandbox). Build tag e2e;
// "make e2e" builds what they stand on and runs them for every Slurm version.
package e2e
