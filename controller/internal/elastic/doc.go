// Package elastic makes the pods of elastic node sets, which Slurm itself starts and ends, and deletes them.
//
// slurmctld's agent reports which nodes Slurm wants. A wanted node gets a pod of its name, made from the
// PodTemplate of its set; the pod of a node that is not wanted goes. Pods, PodTemplates and reports are the only
// state: the name is the lock, so that two leaders, or one that was restarted, make nothing twice. What a leader
// keeps besides, as pauses after failures, a later one need not know.
package elastic
