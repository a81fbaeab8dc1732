package slurm

import "slices"

// JobState is the state of a job: its base state first, and the flags beside it, by the names of Slurm's JSON, as in
// RUNNING, STOPPED. Of a job that squeue(1) shows as COMPLETING the base state may not be known yet.
type JobState []string

// jobBases are the base states (JOB_STATE_BASE of slurm.h), the frequent ones first. Those after SUSPENDED say how a job
// has ended.
var jobBases = []string{
	"PENDING", "RUNNING", "SUSPENDED",
	"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
}

// jobFlags have the base state of each job with the flag; empty where the flag leaves that open. A flag that is not among
// them, of a later Slurm, means nothing.
var jobFlags = map[string]string{
	"CONFIGURING": "RUNNING", // its nodes boot, or its prolog runs
	"RESIZING":    "RUNNING", // it gets other nodes
	"SIGNALING":   "RUNNING", // a signal is on its way
	"STOPPED":     "RUNNING", // its processes are stopped, and its CPUs are its own; those of SUSPENDED go to others

	"EXPEDITING":    "PENDING", // it begins anew, before all others
	"REQUEUED":      "PENDING", // it begins anew
	"REQUEUE_FED":   "PENDING", // it begins anew in another cluster
	"REQUEUE_HOLD":  "PENDING", // it begins anew once somebody has released it
	"RESV_DEL_HOLD": "PENDING", // its reservation is gone, and it waits until somebody releases it
	"SPECIAL_EXIT":  "PENDING", // it ended with a status that holds it

	"COMPLETING": "", // slurmctld waits for what the job leaves behind on a node
	"REVOKED":    "", // another cluster of the federation runs it
	"STAGE_OUT":  "", // its burst buffer is copied
}

// shownJobStates has a state for each word that squeue shows.
var shownJobStates = func() map[string]JobState {
	all := make(map[string]JobState, len(jobBases)+len(jobFlags))
	for _, base := range jobBases {
		all[base] = JobState{base}
	}
	for flag, base := range jobFlags {
		if all[flag] = (JobState{flag}); base != "" {
			all[flag] = JobState{base, flag}
		}
	}
	return all
}()

// ParseJobState reads the one word that squeue(1) shows for a state: the base state, or one of the flags. It is nil where
// nobody knows the word. Nobody may change it.
func ParseJobState(word string) JobState { return shownJobStates[word] }

// Ordered has the base state first. It may change the list.
func (s JobState) Ordered() JobState {
	if i := slices.IndexFunc(s, func(one string) bool { return slices.Contains(jobBases, one) }); i > 0 {
		one := s[i]
		copy(s[1:], s[:i])
		s[0] = one
	}
	return s
}

// Is says whether the base state or a flag has one of the names.
func (s JobState) Is(names ...string) bool {
	for _, one := range s {
		if slices.Contains(names, one) {
			return true
		}
	}
	return false
}

// Base is the base state; empty where it is not known.
func (s JobState) Base() string {
	if len(s) > 0 && slices.Contains(jobBases, s[0]) {
		return s[0]
	}
	return ""
}

// Flags are all but the base state.
func (s JobState) Flags() []string {
	if s.Base() != "" {
		return s[1:]
	}
	return s
}

// Pending says whether the job waits to begin, or to begin anew.
func (s JobState) Pending() bool { return len(s) > 0 && s[0] == "PENDING" }

// HasNodes says whether the job runs or is suspended.
func (s JobState) HasNodes() bool { return len(s) > 0 && s[0] == "RUNNING" || s.Suspended() }

// Suspended says whether the job's processes are stopped. It has its nodes, but slurmctld gives
// their CPUs to others.
func (s JobState) Suspended() bool { return len(s) > 0 && s[0] == "SUSPENDED" }

// Completing says whether the job is being ended on one of its nodes.
func (s JobState) Completing() bool { return slices.Contains(s, "COMPLETING") }
