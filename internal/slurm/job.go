package slurm

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Job is a job as slurmctld shows it ("scontrol show job --json").
type Job struct {
	ID int64 `json:"job_id"`
	// ArrayID and TaskID are those of a task of an array. The task that was
	// started last has the array's number for its ID.
	ArrayID Number `json:"array_job_id"`
	TaskID  Number `json:"array_task_id"`
	// HetID and HetOffset are those of a part of a heterogeneous job; HetID is
	// the ID of its leader, which has the batch shell.
	HetID     Number `json:"het_job_id"`
	HetOffset Number `json:"het_job_offset"`
	User      string `json:"user_name"`
	UserID    int64  `json:"user_id"`
	// Account is what the job is charged to, empty where it has none.
	Account string `json:"account"`
	// State is the base state and the flags, as in RUNNING, STOPPED.
	State        []string `json:"job_state"`
	AdminComment string   `json:"admin_comment"`
	// Batch and Requeue: it was submitted by sbatch, and may be started anew
	// (sbatch --requeue, slurm.conf's JobRequeue). salloc's have Requeue as well.
	Batch   bool `json:"batch_flag"`
	Requeue bool `json:"requeue"`
	// Hold and Why: it waits until somebody releases it, and what slurmctld says of that.
	Hold bool   `json:"hold"`
	Why  string `json:"state_description"`
	// NodeCount is how many nodes it has. Of one that is COMPLETING, it counts those that it still ends
	// on (pack_job of job_mgr.c).
	NodeCount Number `json:"node_count"`
	// BatchHost is the node with the batch script.
	BatchHost string `json:"batch_host"`
	// Start is the time at which slurmctld gave the job its nodes; zero before.
	Start Time `json:"start_time"`
	// End is when its time limit will end it, a year after its start where it
	// has none.
	End Time `json:"end_time"`
}

// Number is an optional one in Slurm's JSON. In a job that is neither of an
// array nor heterogeneous, array_job_id and het_job_id are set, and 0.
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
	case j.HetID.Number != 0:
		return fmt.Sprintf("%d+%d", j.HetID.Number, j.HetOffset.Number)
	}
	return strconv.FormatInt(j.ID, 10)
}

// Running says whether the job runs or is suspended, and nobody is ending it.
func (j *Job) Running() bool {
	return (slices.Contains(j.State, "RUNNING") || j.Suspended()) && !j.Completing()
}

// Completing says whether the job is being ended on one of its nodes.
func (j *Job) Completing() bool { return slices.Contains(j.State, "COMPLETING") }

// Suspended says whether the job's processes are stopped. It has its nodes, but slurmctld gives
// their CPUs to others.
func (j *Job) Suspended() bool { return slices.Contains(j.State, "SUSPENDED") }

// Step is a step as slurmctld shows it ("scontrol show step").
type Step struct {
	// ID is for people: 3.0, 3.batch, 3.extern or 3.interactive.
	ID string
	// Running: slurmctld waits for its end.
	Running bool
	// Nodes is how many nodes it runs on, Hosts a host list of them.
	Nodes int
	Hosts string
	Start time.Time
}

// Job asks "scontrol show job --json"; id is a number or an SLUID.
func (s Scontrol) Job(ctx context.Context, id string) (*Job, error) {
	var answer struct {
		Jobs []struct {
			Job
			Step struct {
				SLUID string `json:"sluid"`
			} `json:"step_id"`
		} `json:"jobs"`
	}
	err := s.ask(ctx, &answer, "show", "job", id, "--json")
	switch {
	case unknown(err):
		return nil, nil
	case err != nil:
		return nil, err
	case answer.Jobs == nil:
		return nil, listless("show job", "jobs")
	}
	// Asked for an array's number or a leader's, scontrol shows all tasks or
	// parts, in no order.
	for i := range answer.Jobs {
		if job := &answer.Jobs[i]; id == strconv.FormatInt(job.ID, 10) || id == job.Step.SLUID {
			return &job.Job, nil
		}
	}
	return nil, nil
}

// Step asks "scontrol show step".
func (s Scontrol) Step(ctx context.Context, id string) (*Step, error) {
	steps, err := s.Steps(ctx, id)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	return &steps[0], nil
}

// Steps asks "scontrol show step": its JSON has neither batch nor extern steps
// by name. SLURM_TIME_FORMAT (scontrol(1)) makes its times seconds since 1970.
func (s Scontrol) Steps(ctx context.Context, job string) ([]Step, error) {
	what := exec.CommandContext(ctx, s.Path, "--oneliner", "show", "step", job)
	s.Env = append(slices.Clip(s.Env), "SLURM_TIME_FORMAT=%s")
	out, err := s.command(ctx, "scontrol show step "+job, what)
	switch {
	case unknown(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var steps []Step
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "StepId=") {
			continue
		}
		step, err := parseStep(line)
		if err != nil {
			return nil, fmt.Errorf("cannot read the answer of scontrol show step %s: %w", job, err)
		}
		steps = append(steps, step)
	}
	return steps, nil
}

func parseStep(line string) (Step, error) {
	fields := map[string]string{}
	for field := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(field, "=")
		fields[key] = value
	}
	nodes, err := strconv.Atoi(fields["Nodes"])
	if err != nil {
		return Step{}, fmt.Errorf("Nodes=%q", fields["Nodes"])
	}
	start, err := strconv.ParseInt(fields["StartTime"], 10, 64)
	if err != nil {
		return Step{}, fmt.Errorf("StartTime=%q", fields["StartTime"])
	}
	return Step{fields["StepId"], fields["State"] == "RUNNING", nodes, fields["NodeList"], time.Unix(start, 0)}, nil
}

// unknown: slurmctld has answered that there is no such job or step.
func unknown(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "Invalid job id") || strings.Contains(err.Error(), "No job steps found"))
}

// over: slurmctld has answered that the job is unknown, or has ended.
func over(err error) bool {
	return unknown(err) || err != nil &&
		(strings.Contains(err.Error(), "already completing or completed") || strings.Contains(err.Error(), "Job has already finished"))
}

// JobsOn asks squeue(1). Without --states it shows what runs, is suspended or
// completing, whatever other flags the state has: --states=RUNNING leaves a
// STOPPED job out. A pending job has no nodes. JobID is a task's or part's own.
func (s Scontrol) JobsOn(ctx context.Context, node string) ([]string, error) {
	out, err := s.command(ctx, "squeue", exec.CommandContext(ctx, s.Squeue, "--noheader", "--all", "--nodelist="+node, "--Format=JobID:24"))
	if err != nil {
		if strings.HasSuffix(err.Error(), "Invalid node name "+node) { // of a list, the others may have jobs
			return nil, nil
		}
		return nil, err
	}
	ids := strings.Fields(string(out))
	for _, id := range ids {
		if _, err := strconv.ParseInt(id, 10, 64); err != nil {
			return nil, fmt.Errorf("cannot read the answer of squeue: %q is no job id", id)
		}
	}
	return ids, nil
}

// Unfinished is a job that waits, runs, is suspended or completing.
type Unfinished struct {
	// Name is one for people: 5, 5_2, 5_[3-9] or 5+1.
	Name string
	// Partitions are those that it waits for, or the one that it runs in.
	Partitions []string
}

// Unfinished asks squeue(1), whose default these states are; tasks of an array that wait
// have one line. --all is for hidden partitions too.
func (s Scontrol) Unfinished(ctx context.Context) ([]Unfinished, error) {
	out, err := s.command(ctx, "squeue", exec.CommandContext(ctx, s.Squeue, "--noheader", "--all", "--local", "--format=%i %P"))
	if err != nil {
		return nil, err
	}
	var all []Unfinished
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			return nil, fmt.Errorf("cannot read the answer of squeue: want a job and its partitions, not %q", line)
		}
		all = append(all, Unfinished{fields[0], strings.Split(fields[1], ",")})
	}
	return all, nil
}

// CommentJob runs "scontrol update admincomment=".
func (s Scontrol) CommentJob(ctx context.Context, job *Job, comment string) error {
	_, err := s.run(ctx, "update", "jobid="+job.Name(), "admincomment="+comment)
	if over(err) {
		return nil
	}
	return err
}

// SignalJob runs scancel(1) --signal. When slurmctld will not signal a job as
// it is, pending or suspended, scancel tries again for a minute and a half.
// Without --verbose it may fail and say nothing.
func (s Scontrol) SignalJob(ctx context.Context, job *Job, signal string, batch bool) error {
	if slices.Contains(job.State, "PENDING") || slices.Contains(job.State, "SUSPENDED") {
		return fmt.Errorf("cannot signal job %s: it is %s, not RUNNING", job.Name(), strings.Join(job.State, ", "))
	}
	args := []string{"--verbose", "--signal=" + signal}
	if batch {
		args = append(args, "--batch")
	}
	return s.scancel(ctx, append(args, job.Name())...)
}

// CancelJob runs scancel(1).
func (s Scontrol) CancelJob(ctx context.Context, job *Job) error { return s.scancel(ctx, job.Name()) }

func (s Scontrol) scancel(ctx context.Context, args ...string) error {
	_, err := s.command(ctx, "scancel", exec.CommandContext(ctx, s.Scancel, args...))
	if over(err) {
		return nil
	}
	return err
}

// RequeueJob runs "scontrol requeue incomplete": without that word, a job that
// has ended meanwhile would run again.
func (s Scontrol) RequeueJob(ctx context.Context, job *Job) error {
	_, err := s.run(ctx, "requeue", "incomplete", job.whole())
	if over(err) {
		return nil
	}
	return err
}

// ReleaseJob runs "scontrol release".
func (s Scontrol) ReleaseJob(ctx context.Context, job *Job) error {
	_, err := s.run(ctx, "release", job.whole())
	if over(err) {
		return nil
	}
	return err
}

// whole is the name by which a heterogeneous job is requeued and released: its leader's number, and no other.
func (j *Job) whole() string {
	if j.HetID.Number != 0 {
		return strconv.FormatInt(j.HetID.Number, 10)
	}
	return j.Name()
}
