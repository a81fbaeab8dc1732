//go:build e2e

// Package queue has jobs that stand for Kubernetes' pods run on real clusters: the gateway submits and ends them as their user,
// and nodes hold until the pods are gone. e2e/fakecontroller plays the controller. It runs on this machine's own kernel
// (e2e/testbed/native).
package queue
