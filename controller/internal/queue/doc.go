// Package queue decides about Kubernetes' pods that wait in Slurm's queue: which pods are one group, what a group asks
// Slurm for, and what happens next to its job and its pods. It is pure: package bridge has the clock, Kubernetes and the
// gateways.
//
// A group is one job of Slurm's. Its pods have a scheduling gate until slurmctld has said that the job runs; then each
// of them gets one of the job's tasks, and with it a node. What slurmctld says decides, and nothing else does: silence,
// errors and words that nobody knows neither delete a pod nor end a job.
//
//	Gathering   pods wait, and no job stands for them
//	Queued      the job waits
//	Granted     the job runs, and pods still wait for their nodes
//	Running     the job runs, and its pods have their nodes
//	Ending      the job has ended, and pods of it are still there
//	Ended       nothing is left to do
package queue
