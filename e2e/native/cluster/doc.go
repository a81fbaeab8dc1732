// Package cluster compares what slurmctld's agent knows of a cluster with what Slurm's commands
// print, in real clusters (e2e/testbed/native) with nodes and jobs in many states. The status page shows what
// happens there.
//
//	go test -tags e2e -v ./e2e/native/cluster
package cluster
