// Package noderecords keeps slurmctld's node records and the cluster's pods in step: what Kubernetes is
// told of the nodes, and what becomes of the records whose pods are gone.
//
// Nothing here asks anybody. The agent brings what slurmctld and slurmlet's controller have told, and does
// what a Plan says.
package noderecords
