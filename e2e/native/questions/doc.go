// Package questions counts what the agents of a cluster with many records ask slurmctld, in
// real clusters (e2e/testbed/native): nothing that a node's agent asks may have slurmctld send all of
// its nodes or jobs.
//
//	go test -tags e2e -v ./e2e/native/questions
package questions
