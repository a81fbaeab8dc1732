package slurm

import (
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Job is what "scontrol show job --json" has of a job that matters to somebody who asks why it waits.
type Job struct {
	ID        int64  `json:"job_id"`
	ArrayID   Number `json:"array_job_id"`
	TaskID    Number `json:"array_task_id"`
	Tasks     string `json:"array_task_string"`
	HetID     Number `json:"het_job_id"`
	HetOffset Number `json:"het_job_offset"`

	Name      string   `json:"name"`
	User      string   `json:"user_name"`
	UserID    int64    `json:"user_id"`
	Account   string   `json:"account"`
	QOS       string   `json:"qos"`
	Partition string   `json:"partition"`
	State     []string `json:"job_state"`
	// Reason is slurmctld's word for why the job waits, or has failed, and Description a text beside it, mostly empty.
	Reason      string `json:"state_reason"`
	Description string `json:"state_description"`
	Hold        bool   `json:"hold"`
	Priority    Number `json:"priority"`
	Dependency  string `json:"dependency"`
	Licenses    string `json:"licenses"`
	Features    string `json:"features"`
	Reservation string `json:"resv_name"`
	Required    string `json:"required_nodes"`
	Excluded    string `json:"excluded_nodes"`
	// Nodes are those that the job has, or has had. Scheduled are those that slurmctld has in mind for it.
	Nodes     string `json:"nodes"`
	Scheduled string `json:"scheduled_nodes"`
	BatchHost string `json:"batch_host"`
	NodeCount Number `json:"node_count"`
	CPUs      Number `json:"cpus"`
	TaskCount Number `json:"tasks"`
	// MinCPUs are those of each node. Memory is in MiB, of each node or of each CPU.
	MinCPUs   Number `json:"minimum_cpus_per_node"`
	MemPerCPU Number `json:"memory_per_cpu"`
	Memory    Number `json:"memory_per_node"`
	Disk      Number `json:"minimum_tmp_disk_per_node"`
	// Gres is what each node must have, as in gres/gpu:2 or gres:gpu:2.
	Gres     string `json:"tres_per_node"`
	Restarts int64  `json:"restart_cnt"`
	Comment  string `json:"admin_comment"`
	Output   string `json:"standard_output"`
	Expanded string `json:"stdout_expanded"`
	Dir      string `json:"current_working_directory"`
	// Limit is in minutes.
	Limit    Number `json:"time_limit"`
	Eligible Number `json:"eligible_time"`
	// Start is when the job has begun, or when slurmctld expects that it begins.
	Start Number `json:"start_time"`
	End   Number `json:"end_time"`
	Exit  Exit   `json:"exit_code"`
}

// Exit is how a job has ended.
type Exit struct {
	Code   Number `json:"return_code"`
	Signal struct {
		ID   Number `json:"id"`
		Name string `json:"name"`
	} `json:"signal"`
}

// Label is the job as Slurm's commands take it: 5, 5_2, 5_[1-9] or 5+1.
func (j *Job) Label() string {
	switch {
	case j.TaskID.Set && j.ArrayID.Number != 0:
		return strconv.FormatInt(j.ArrayID.Number, 10) + "_" + strconv.FormatInt(j.TaskID.Number, 10)
	case j.Tasks != "":
		return strconv.FormatInt(j.ArrayID.Number, 10) + "_[" + j.Tasks + "]"
	case j.HetID.Number != 0:
		return strconv.FormatInt(j.HetID.Number, 10) + "+" + strconv.FormatInt(j.HetOffset.Number, 10)
	}
	return strconv.FormatInt(j.ID, 10)
}

// Whole is the job's number for commands that change all tasks that wait.
func (j *Job) Whole() string {
	label, _, _ := strings.Cut(j.Label(), "_[")
	return label
}

// Is says whether the state or a flag of it has one of the names.
func (j *Job) Is(names ...string) bool {
	return slices.ContainsFunc(j.State, func(one string) bool { return slices.Contains(names, one) })
}

// InPartitions are those that the job waits for, or the one that it runs in.
func (j *Job) InPartitions() []string { return strings.Split(j.Partition, ",") }

// Each is how many CPUs and how much memory in MiB a node must have for the job, at least.
func (j *Job) Each() (cpus, memory int64) {
	nodes := max(1, j.NodeCount.Number)
	cpus = max(1, j.MinCPUs.Number)
	if j.CPUs.Number > cpus*nodes && nodes == 1 && j.NodeCount.Is() {
		cpus = max(cpus, 1)
	}
	memory = j.Memory.Number
	if !j.Memory.Is() {
		memory = 0
	}
	if j.MemPerCPU.Is() {
		memory = j.MemPerCPU.Number * cpus
	}
	return cpus, memory
}

// OutputFile is that of a job's standard output, with the usual names in it replaced (filename pattern of sbatch(1)).
func (j *Job) OutputFile() string {
	file := j.Expanded
	if file == "" {
		file = strings.NewReplacer(
			"%%", "%", "%j", strconv.FormatInt(j.ID, 10), "%A", strconv.FormatInt(j.ArrayID.Number, 10), "%a", strconv.FormatInt(j.TaskID.Number, 10),
			"%u", j.User, "%x", j.Name, "%N", j.BatchHost, "%J", strconv.FormatInt(j.ID, 10),
		).Replace(j.Output)
	}
	if file == "" || path.IsAbs(file) {
		return file
	}
	return path.Join(j.Dir, file)
}

// FindJobs asks "scontrol show job --json": an array's number, or that of a heterogeneous job, finds all of its parts.
// Without one it finds none.
func FindJobs(ctx context.Context, a Asker, id string) ([]Job, error) {
	var answer struct {
		Jobs []Job `json:"jobs"`
	}
	err := ask(ctx, a, &answer, "scontrol", "show", "job", id, "--json")
	var refused *Refusal
	if errors.As(err, &refused) && strings.Contains(refused.Said, "Invalid job id") {
		return nil, nil
	}
	return answer.Jobs, err
}

// IsJobID says whether a word is a job for Slurm's commands: 5, 5_2 or 5+1. No option is one.
func IsJobID(word string) bool {
	rest := strings.TrimLeft(word, "0123456789")
	if len(rest) == len(word) {
		return false
	}
	if rest == "" {
		return true
	}
	if rest[0] != '_' && rest[0] != '+' {
		return false
	}
	return len(rest) > 1 && strings.Trim(rest[1:], "0123456789") == ""
}

// Waiting is a job that waits, as squeue sorts them.
type Waiting struct {
	Job, User, Reason string
	Priority          int64
	Start             string
}

// Queue asks squeue for what waits in partitions, the first in turn first.
func Queue(ctx context.Context, a Asker, partitions ...string) ([]Waiting, error) {
	out, err := a.Ask(ctx, "squeue", "--all", "--local", "--noheader", "--states=PENDING", "--sort=-p,i",
		"--partition="+strings.Join(partitions, ","), "--format=%i|%Q|%S|%r|%u")
	if err != nil {
		return nil, err
	}
	var all []Waiting
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 5)
		if len(f) != 5 {
			continue
		}
		priority, _ := strconv.ParseInt(f[1], 10, 64) // of squeue, it is a number
		all = append(all, Waiting{Job: f[0], Priority: priority, Start: f[2], Reason: f[3], User: f[4]})
	}
	return all, nil
}

// JobCounts asks squeue for how many jobs are in each state. The tasks of an array that wait have one line.
func JobCounts(ctx context.Context, a Asker) (map[string]int, error) {
	out, err := a.Ask(ctx, "squeue", "--all", "--local", "--noheader", "--array", "--format=%T")
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for state := range strings.FieldsSeq(out) {
		counts[state]++
	}
	return counts, nil
}

// JobIDs asks squeue for the jobs that are not over.
func JobIDs(ctx context.Context, a Asker) ([]string, error) {
	out, err := a.Ask(ctx, "squeue", "--all", "--local", "--noheader", "--array", "--format=%i")
	return strings.Fields(out), err
}
