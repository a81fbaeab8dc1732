package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// job is one that slurmctld knows, as "scontrol show job --json" prints it.
type job struct {
	ID           int64     `json:"job_id"`
	User         string    `json:"user_name"`
	Partition    string    `json:"partition"`
	State        []string  `json:"job_state"`
	AdminComment string    `json:"admin_comment"`
	Batch        bool      `json:"batch_flag"`
	Requeue      bool      `json:"requeue"`
	Nodes        number    `json:"node_count"`
	End          timestamp `json:"end_time"`
}

type number struct {
	Set    bool  `json:"set"`
	Number int64 `json:"number"`
}

func jobPath(id string) string { return filepath.Join(stage, "jobs", id) }

// loadJob returns nil for a job that there is not. One that is COMPLETING has ended when no step of its runs here any more.
func loadJob(id string) *job {
	data, err := os.ReadFile(jobPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must(err)
	j := job{Nodes: number{Set: true, Number: 1}}
	must(json.Unmarshal(data, &j))
	if steps, _ := filepath.Glob(filepath.Join(stage, "spool", "*_"+id+".*")); len(steps) == 0 {
		j.State = slices.DeleteFunc(j.State, func(s string) bool { return s == "COMPLETING" })
	}
	return &j
}

func (j *job) is(state string) bool { return slices.Contains(j.State, state) }

// jobsHere are those for which slurmctld shows the node as busy: none that is suspended.
func jobsHere() []*job { return jobsThatAre("RUNNING", "COMPLETING") }

func jobsThatAre(states ...string) []*job {
	paths, err := filepath.Glob(jobPath("*"))
	must(err)
	var all []*job
	for _, path := range paths {
		if j := loadJob(filepath.Base(path)); j != nil && slices.ContainsFunc(states, j.is) {
			all = append(all, j)
		}
	}
	return all
}

func (j *job) store() {
	data, err := json.Marshal(j)
	must(err)
	next := filepath.Join(stage, "job.new")
	must(os.WriteFile(next, data, 0o644))
	must(os.Rename(next, jobPath(strconv.FormatInt(j.ID, 10))))
}

// changeJob does as much for a job as change for the node's record.
func changeJob(id string, f func(*job)) {
	locked(func() {
		j := loadJob(id)
		if j == nil {
			fail("Invalid job id specified for job " + id)
		}
		f(j)
		j.store()
	})
}

// requeue ends a job, and it will be started anew.
func requeue(id string) {
	changeJob(id, func(j *job) {
		if !j.Batch || !j.Requeue {
			fail("Requested operation is presently disabled for job " + id)
		}
		j.State = []string{"PENDING", "COMPLETING"}
	})
}

// failJobs does what a node that is set DOWN means for its jobs. One with steps of n2 is ending there.
func failJobs() {
	for _, j := range jobsThatAre("RUNNING", "SUSPENDED", "COMPLETING") {
		j.State = slices.DeleteFunc(j.State, func(s string) bool { return s == "COMPLETING" })
		if j.is("RUNNING") || j.is("SUSPENDED") {
			j.State = []string{"NODE_FAIL"}
		}
		if steps, _ := filepath.Glob(filepath.Join(stage, "spool", "n2_"+strconv.FormatInt(j.ID, 10)+".*")); len(steps) > 0 {
			j.State = append(j.State, "COMPLETING")
		}
		j.store()
	}
}

// showJob shows what it was asked for; a job that is forgotten is a fault.
func showJob(id string) {
	j := loadJob(id)
	if j == nil {
		fail("slurm_load_jobs error: Invalid job id specified")
	}
	answer("jobs", j)
}

// squeue prints the numbers of the jobs that hold the node, or the partitions of all, as the agent asks for them.
func squeue(args []string) {
	if slices.Contains(args, "--format=%A %T") {
		jobStates()
		return
	}
	if slices.Contains(args, "--format=%i %P") {
		for _, j := range jobsThatAre("PENDING", "RUNNING", "SUSPENDED", "COMPLETING") {
			fmt.Println(j.ID, j.Partition)
		}
		return
	}
	if slices.Contains(args, "--format=%i|%A|%n|%x|%N|%t") {
		claims()
		return
	}
	if slices.Contains(args, "--states=SUSPENDED") {
		suspended(slices.Contains(args, "--only-job-state"))
		return
	}
	if chosen("nameless") {
		fail("slurm_load_jobs error: Socket timed out on send/recv operation")
	}
	for _, j := range jobsThatAre("RUNNING", "SUSPENDED", "COMPLETING") {
		fmt.Printf("%-24d\n", j.ID)
	}
}

// claims prints who names the node, and which jobs hold it.
func claims() {
	if chosen("named") {
		fmt.Println("7|7|n1|||PD")
	}
	for _, j := range jobsThatAre("RUNNING", "SUSPENDED", "COMPLETING") {
		state := "R"
		if slices.Contains(j.State, "COMPLETING") {
			state = "CG"
		}
		fmt.Printf("%d|%d|||n1|%s\n", j.ID, j.ID, state)
	}
}
