// Package noderecords keeps slurmctld's node records and the cluster's pods in step: what Kubernetes is
// sent of the nodes, and what becomes of the records whose pods are gone.
//
// Nothing here asks anybody. The agent brings what slurmctld and slurmlet's controller have said, and does
// what a Plan says.
package noderecords
