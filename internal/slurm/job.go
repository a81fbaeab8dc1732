package slurm

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Job is a job, a task of an array, all tasks of an array that wait, or a part of a heterogeneous job, as slurmctld shows
// it. A node's agent asks for one ("scontrol show job --json"), and slurmctld's agent for all of them at once (package
// clusterview), 100,000 in a large cluster. Memory is in MiB, as Slurm counts it.
type Job struct {
	ID int64 `json:"job_id"`
	// ArrayID is 0 for a job that is no array. The task that was started last has the array's number for its ID.
	ArrayID int64 `json:"-"`
	// ArrayTask is the number of a task, "7". Of the tasks that wait it is "8-20%4" in a clusterview, and empty elsewhere.
	ArrayTask string `json:"-"`
	// HetID is 0 for a job that is not heterogeneous. It is the ID of the leader, which has the batch shell.
	HetID   int64  `json:"-"`
	User    string `json:"user_name"`
	UID     int    `json:"user_id"`
	Account string `json:"account"` // which the job is charged to
	// State is the base state and the flags.
	State JobState `json:"job_state"`
	// Reason is why the job waits, or how it ended: slurmctld's own words where it has some, else a name such as Priority.
	Reason string `json:"-"`
	// Held: it waits until somebody releases it. Batch and Requeue, which are known of one job alone: it was submitted by
	// sbatch, and may be started anew (sbatch --requeue, slurm.conf's JobRequeue). salloc's have Requeue as well.
	Held    bool `json:"hold"`
	Batch   bool `json:"batch_flag"`
	Requeue bool `json:"requeue"`
	// Nodes is how many nodes the job has, or how many slurmctld thinks that it needs. Of one that is COMPLETING, it counts
	// those that it still ends on (pack_job of job_mgr.c).
	Nodes int `json:"-"`
	// Start is when slurmctld gave the job its nodes, or expects to. End is when its time limit will end it, a year after
	// its start where it has none, or when it ended.
	Start Time `json:"start_time"`
	End   Time `json:"end_time"`
	// Eligible is when it may or might begin (sbatch --begin, a dependency); 0 as long as nobody knows.
	Eligible Time `json:"eligible_time"`

	// What follows is known of one job alone.

	// HetOffset is the place among the parts of a heterogeneous job.
	HetOffset    int64  `json:"-"`
	BatchHost    string `json:"batch_host"` // the node with the batch script
	AdminComment string `json:"admin_comment"`

	// The rest is known in a clusterview alone. Equal texts and lists share their memory there, so nobody may change a list.

	// Name is its user's for it.
	Name, QOS string `json:"-"`
	// Tasks is how many tasks of an array this record stands for, and 1 of a job that is none.
	Tasks int `json:"-"`
	// Partitions are those that a pending job may start in, or the one that it was started in.
	Partitions []string `json:"-"`
	Priority   int64    `json:"-"`
	Submit     Time     `json:"-"`
	// TimeLimit is 0 for none.
	TimeLimit time.Duration `json:"-"`
	// MaxNodes is how many a pending job wants at most; squeue has Nodes where the job does not say.
	MaxNodes, CPUs, GPUs, Restarts int   `json:"-"`
	Memory                         int64 `json:"-"` // on all of its nodes
	// NodeList is a host list. Features is the job's constraint, and Licenses what it wants or has of them.
	NodeList, Features, Reservation, Licenses string `json:"-"`
	// Pods are the pods that the job stands for in Slurm's queue, NAMESPACE/NAME, as its comment says; empty for other jobs.
	Pods string `json:"-"`
}

// shownJob is a job of Slurm's JSON, with what Job has in another form.
type shownJob struct {
	Job
	ArrayID     number `json:"array_job_id"`
	TaskID      number `json:"array_task_id"`
	HetID       number `json:"het_job_id"`
	HetOffset   number `json:"het_job_offset"`
	NodeCount   number `json:"node_count"`
	StateReason string `json:"state_reason"`
	Partition   string `json:"partition"`
	Description string `json:"state_description"`
	Step        struct {
		SLUID string `json:"sluid"`
	} `json:"step_id"`
	Association int64 `json:"association_id"`
}

// number is an optional one in Slurm's JSON. In a job that is neither of an
// array nor heterogeneous, array_job_id and het_job_id are set, and 0.
type number struct {
	Set    bool  `json:"set"`
	Number int64 `json:"number"`
}

func (s *shownJob) job() Job {
	j := s.Job
	j.State = j.State.Ordered()
	j.ArrayID, j.HetID, j.HetOffset, j.Nodes = s.ArrayID.Number, s.HetID.Number, s.HetOffset.Number, int(s.NodeCount.Number)
	if s.TaskID.Set {
		j.ArrayTask = strconv.FormatInt(s.TaskID.Number, 10)
	}
	if s.Partition != "" {
		j.Partitions = strings.Split(s.Partition, ",")
	}
	if j.Reason = cmp.Or(s.Description, s.StateReason); j.Reason == "None" {
		j.Reason = ""
	}
	return j
}

// JobID is the job as sacct(1) has it, and as Slurm's commands take it: 5, 5_2 for a task of an array, whose number alone
// may mean the whole array, or 5+1 for a part of a heterogeneous job.
func (j *Job) JobID() string {
	switch {
	case j.ArrayTask != "" && j.ArrayID != 0:
		return fmt.Sprintf("%d_%s", j.ArrayID, j.ArrayTask)
	case j.HetID != 0:
		return fmt.Sprintf("%d+%d", j.HetID, j.HetOffset)
	}
	return strconv.FormatInt(j.ID, 10)
}

// Running says whether the job runs or is suspended, and nobody is ending it.
func (j *Job) Running() bool { return j.State.HasNodes() && !j.Completing() }

// Completing says whether the job is being ended on one of its nodes.
func (j *Job) Completing() bool { return j.State.Completing() }

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
		List []shownJob `json:"jobs"`
	}
	err := s.ask(ctx, &answer, "show", "job", id, "--json")
	switch {
	case unknown(err):
		return nil, nil
	case err != nil:
		return nil, err
	case answer.List == nil:
		return nil, listless("show job", "jobs")
	}
	// Asked for an array's number or a leader's, scontrol shows all tasks or
	// parts, in no order.
	for i := range answer.List {
		if shown := &answer.List[i]; id == strconv.FormatInt(shown.ID, 10) || id == shown.Step.SLUID {
			job := shown.job()
			return &job, nil
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
	_, err := s.run(ctx, "update", "jobid="+job.JobID(), "admincomment="+comment)
	if over(err) {
		return nil
	}
	return err
}

// SignalJob runs scancel(1) --signal. When slurmctld will not signal a job as
// it is, pending or suspended, scancel tries again for a minute and a half.
// Without --verbose it may fail and say nothing.
func (s Scontrol) SignalJob(ctx context.Context, job *Job, signal string, batch bool) error {
	if job.State.Pending() || job.State.Suspended() {
		return fmt.Errorf("cannot signal job %s: it is %s, not RUNNING", job.JobID(), strings.Join(job.State, ", "))
	}
	args := []string{"--verbose", "--signal=" + signal}
	if batch {
		args = append(args, "--batch")
	}
	return s.scancel(ctx, append(args, job.JobID())...)
}

// CancelJob runs scancel(1).
func (s Scontrol) CancelJob(ctx context.Context, job *Job) error { return s.scancel(ctx, job.JobID()) }

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
	if j.HetID != 0 {
		return strconv.FormatInt(j.HetID, 10)
	}
	return j.JobID()
}
