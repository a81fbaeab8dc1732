package slurm

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Job is a job as slurmctld shows it ("scontrol show job --json").
type Job struct {
	ID int64 `json:"job_id"`
	// ArrayID and TaskID are set in a task of an array, HetID and HetOffset in a
	// part of a heterogeneous job; HetID is the job_id of its first.
	ArrayID   Number `json:"array_job_id"`
	TaskID    Number `json:"array_task_id"`
	HetID     Number `json:"het_job_id"`
	HetOffset Number `json:"het_job_offset"`
	User      string `json:"user_name"`
	// State is the base state and the flags, as in RUNNING, COMPLETING.
	State        []string `json:"job_state"`
	AdminComment string   `json:"admin_comment"`
	// Batch and Requeue: it was submitted by sbatch, and may be started anew
	// (sbatch --requeue, slurm.conf's JobRequeue).
	Batch   bool `json:"batch_flag"`
	Requeue bool `json:"requeue"`
	// End is when its time limit will end it.
	End Time `json:"end_time"`
}

// Number is an optional one in Slurm's JSON.
type Number struct {
	Set    bool  `json:"set"`
	Number int64 `json:"number"`
}

// Name is the job as Slurm's commands take it: 5, 5_2 for a task of an array,
// whose number alone may mean the whole array, or 5+1 for a part of a
// heterogeneous job.
func (j *Job) Name() string {
	switch {
	case j.TaskID.Set && j.ArrayID.Number != 0:
		return fmt.Sprintf("%d_%d", j.ArrayID.Number, j.TaskID.Number)
	case j.HetID.Set && j.HetID.Number != 0:
		return fmt.Sprintf("%d+%d", j.HetID.Number, j.HetOffset.Number)
	}
	return strconv.FormatInt(j.ID, 10)
}

// Running says whether the job has nodes and nobody is ending it.
func (j *Job) Running() bool {
	return (slices.Contains(j.State, "RUNNING") || slices.Contains(j.State, "SUSPENDED")) && !slices.Contains(j.State, "COMPLETING")
}

// Step is a step as slurmctld shows it ("scontrol show step").
type Step struct {
	// Running: slurmctld waits for its end.
	Running bool
	// Nodes is how many nodes it runs on.
	Nodes int
}

// Job asks "scontrol show job --json"; id is a number or an SLUID.
func (s Scontrol) Job(ctx context.Context, id string) (*Job, error) {
	var answer struct {
		Jobs []Job `json:"jobs"`
	}
	err := s.ask(ctx, &answer, "show", "job", id, "--json")
	switch {
	case unknown(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	for i := range answer.Jobs {
		// Asked for the first task of an array, scontrol shows all of them.
		if number, err := strconv.ParseInt(id, 10, 64); err != nil || answer.Jobs[i].ID == number {
			return &answer.Jobs[i], nil
		}
	}
	return nil, nil
}

// Step asks "scontrol show step": its JSON has neither batch nor extern steps
// by name.
func (s Scontrol) Step(ctx context.Context, id string) (*Step, error) {
	out, err := s.run(ctx, "--oneliner", "show", "step", id)
	switch {
	case unknown(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	fields := map[string]string{}
	for field := range strings.FieldsSeq(string(out)) {
		key, value, _ := strings.Cut(field, "=")
		fields[key] = value
	}
	if fields["StepId"] == "" {
		return nil, nil
	}
	nodes, err := strconv.Atoi(fields["Nodes"])
	if err != nil {
		return nil, fmt.Errorf("cannot read the answer of scontrol show step %s: Nodes=%q", id, fields["Nodes"])
	}
	return &Step{fields["State"] == "RUNNING", nodes}, nil
}

// unknown: slurmctld has answered that there is no such job or step.
func unknown(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "Invalid job id") || strings.Contains(err.Error(), "No job steps found"))
}

// JobsOn asks squeue(1).
func (s Scontrol) JobsOn(ctx context.Context, node string) ([]string, error) {
	out, err := s.command(ctx, "squeue", exec.CommandContext(ctx, s.Squeue, "--noheader", "--nodelist="+node, "--states=RUNNING,SUSPENDED,COMPLETING,STOPPED,SIGNALING,STAGE_OUT,CONFIGURING", "--Format=JobID:24"))
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(out)), nil
}

// CommentJob runs "scontrol update admincomment=".
func (s Scontrol) CommentJob(ctx context.Context, job *Job, comment string) error {
	_, err := s.run(ctx, "update", "jobid="+job.Name(), "admincomment="+comment)
	return err
}

// SignalJob runs scancel(1) --signal.
func (s Scontrol) SignalJob(ctx context.Context, job *Job, signal string, batch bool) error {
	args := []string{"--signal=" + signal}
	if batch {
		args = append(args, "--batch")
	}
	return s.scancel(ctx, append(args, job.Name())...)
}

// CancelJob runs scancel(1).
func (s Scontrol) CancelJob(ctx context.Context, job *Job) error { return s.scancel(ctx, job.Name()) }

func (s Scontrol) scancel(ctx context.Context, args ...string) error {
	_, err := s.command(ctx, "scancel", exec.CommandContext(ctx, s.Scancel, args...))
	if unknown(err) || err != nil && strings.Contains(err.Error(), "already completing or completed") {
		return nil
	}
	return err
}

// RequeueJob runs "scontrol requeue".
func (s Scontrol) RequeueJob(ctx context.Context, job *Job) error {
	name := job.Name()
	if job.HetID.Set && job.HetID.Number != 0 {
		name = strconv.FormatInt(job.HetID.Number, 10)
	}
	_, err := s.run(ctx, "requeue", name)
	return err
}
