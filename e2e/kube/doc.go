// Package kube has the tests on real Kubernetes: the bed itself, and Slurm with
// slurmlet in its pods. They need root and the tag e2e, and `make build` before.
package kube
