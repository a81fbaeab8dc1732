// Package edits holds tests of edits that meet a slurmctld without a voice, on many nodes:
// real daemons on this machine's own kernel (e2e/native), each with its agent.
//
//	go test -tags e2e -v ./e2e/edits
package edits
