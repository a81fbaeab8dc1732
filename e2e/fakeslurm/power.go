package main

import "slices"

func (r *record) is(flag string) bool { return slices.Contains(r.State, flag) }

// powerDown is for a node that slurmctld has not suspended yet.
func powerDown(r *record, flags ...string) {
	if r.is("POWERING_DOWN") {
		return
	}
	for _, flag := range append(flags, "POWER_DOWN") {
		if !r.is(flag) {
			r.State = append(r.State, flag)
		}
	}
}

// suspend does what slurmctld does once a second with nodes that are to be suspended, and hold no job. It lifts
// any drain of theirs.
func suspend(r *record) {
	if !r.is("POWER_DOWN") || chosen("busy") || chosen("unsuspended") || len(jobsHere()) > 0 {
		return
	}
	r.State = slices.DeleteFunc(r.State, func(s string) bool { return s == "DRAIN" || s == "POWER_DOWN" })
	r.State = append(r.State, "POWERING_DOWN")
}

// requeueJobs takes the jobs off a node.
func requeueJobs() {
	for _, j := range jobsThatAre("RUNNING", "SUSPENDED") {
		j.State = []string{"NODE_FAIL", "COMPLETING"}
		if j.Batch && j.Requeue {
			j.State = []string{"PENDING", "COMPLETING"}
		}
		j.store()
	}
}
