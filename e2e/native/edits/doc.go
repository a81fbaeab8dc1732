// Package edits holds tests of edits that meet a slurmctld without a voice, on many nodes:
// real daemons on this machine's own kernel (e2e/testbed/native), each with its agent.
//
//	go test -tags e2e -v ./e2e/native/edits
package edits
