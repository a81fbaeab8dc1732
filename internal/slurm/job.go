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
	// State is the base state and the flags, as in RUNNING, COMPLETING.
	State        []string `json:"job_state"`
	AdminComment string   `json:"admin_comment"`
	// Batch and Requeue: it was submitted by sbatch, and may be started anew
	// (sbatch --requeue, slurm.conf's JobRequeue).
	Batch   bool `json:"batch_flag"`
	Requeue bool `json:"requeue"`
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
	case len(answer.Jobs) == 0:
		return nil, nil
	}
	return &answer.Jobs[0], nil
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

// CommentJob runs "scontrol update admincomment=".
func (s Scontrol) CommentJob(ctx context.Context, id int64, comment string) error {
	_, err := s.run(ctx, "update", fmt.Sprintf("jobid=%d", id), "admincomment="+comment)
	return err
}

// CancelJob runs scancel(1), which lies beside scontrol.
func (s Scontrol) CancelJob(ctx context.Context, id int64) error {
	_, err := s.command(ctx, "scancel", exec.CommandContext(ctx, s.Scancel, strconv.FormatInt(id, 10)))
	if unknown(err) || err != nil && strings.Contains(err.Error(), "already completing or completed") {
		return nil
	}
	return err
}

// RequeueJob runs "scontrol requeue".
func (s Scontrol) RequeueJob(ctx context.Context, id int64) error {
	_, err := s.run(ctx, "requeue", strconv.FormatInt(id, 10))
	return err
}
