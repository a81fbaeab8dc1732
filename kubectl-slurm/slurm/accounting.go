package slurm

import (
	"context"
	"errors"
	"strings"
)

// ErrNoAccounting is the error of a cluster whose slurmctld has no slurmdbd.
var ErrNoAccounting = errors.New("the cluster has no accounting")

// account is a job as "sacct --json" has it.
type account struct {
	ID    int64 `json:"job_id"`
	Array struct {
		ID   int64  `json:"job_id"`
		Task Number `json:"task_id"`
	} `json:"array"`
	Het struct {
		ID     int64  `json:"job_id"`
		Offset Number `json:"job_offset"`
	} `json:"het"`
	Name      string `json:"name"`
	User      string `json:"user"`
	Account   string `json:"account"`
	QOS       string `json:"qos"`
	Partition string `json:"partition"`
	Nodes     string `json:"nodes"`
	Restarts  int64  `json:"restart_cnt"`
	Output    string `json:"stdout"`
	Expanded  string `json:"stdout_expanded"`
	Dir       string `json:"working_directory"`
	Exit      Exit   `json:"exit_code"`
	State     struct {
		Current []string `json:"current"`
		Reason  string   `json:"reason"`
	} `json:"state"`
	Time struct {
		Start int64  `json:"start"`
		End   int64  `json:"end"`
		Limit Number `json:"limit"`
	} `json:"time"`
	Required struct {
		MemPerCPU Number `json:"memory_per_cpu"`
		Memory    Number `json:"memory_per_node"`
	} `json:"required"`
}

// FindAccounted asks sacct for a job that slurmctld has forgotten, as FindJobs does slurmctld. The batch script of a job
// runs on the first of its nodes.
func FindAccounted(ctx context.Context, a Asker, id string) ([]Job, error) {
	var answer struct {
		Jobs []account `json:"jobs"`
	}
	err := ask(ctx, a, &answer, "sacct", "--json", "--allocations", "--jobs="+id)
	if refused, is := errors.AsType[*Refusal](err); is && strings.Contains(refused.Said, "accounting storage is disabled") {
		return nil, ErrNoAccounting
	}
	jobs := make([]Job, len(answer.Jobs))
	for i := range answer.Jobs {
		jobs[i] = answer.Jobs[i].job()
	}
	return jobs, err
}

func (a *account) job() Job {
	j := Job{
		ID: a.ID, ArrayID: count(a.Array.ID), TaskID: a.Array.Task, HetID: count(a.Het.ID), HetOffset: a.Het.Offset,
		Name: a.Name, User: a.User, Account: a.Account, QOS: a.QOS, Partition: a.Partition, State: a.State.Current,
		Reason: a.State.Reason, Nodes: a.Nodes, Restarts: a.Restarts,
		Output: a.Output, Expanded: a.Expanded, Dir: a.Dir, Exit: a.Exit,
		Start: count(a.Time.Start), End: count(a.Time.End), Limit: a.Time.Limit,
		MemPerCPU: a.Required.MemPerCPU, Memory: a.Required.Memory,
	}
	if j.Nodes == "None assigned" {
		j.Nodes = ""
	}
	if j.Reason == "None" {
		j.Reason = ""
	}
	if names := (&Group{Nodes: j.Nodes}).Names(); len(names) > 0 {
		j.BatchHost = names[0]
	}
	return j
}

// count is a number of sacct's, where 0 is none.
func count(n int64) Number { return Number{Set: n != 0, Number: n} }
