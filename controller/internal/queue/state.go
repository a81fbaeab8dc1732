package queue

import (
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// State is a group, as it is known.
type State struct {
	Spec
	// Pods are those that are there, by UID. Jobs are those that stand for the group, by number.
	Pods []Pod
	Jobs []Job
	// Known says that a gateway has told of all jobs since this replica leads.
	Known bool
	// Doubt says that there may be a job of which nobody has told: a submission's answer was lost, or another replica
	// may have submitted.
	Doubt bool
	// Order is what a gateway does now; its Kind is empty if none does anything.
	Order wire.Order
	// stale says that an epilog has asked since the order was given.
	stale bool
	// Since is when the first pod was seen, and Empty since when no pod needs the job.
	Since, Empty time.Time
	// Retry is when the group may be submitted again, and Failures counts jobs in a row that were refused, or ended
	// before the pods did.
	Retry    time.Time
	Failures int
	// Over are runs of jobs that get no more pods.
	Over []over
	// Owner says how what owns the pods has ended, and asked is when somebody was asked about that.
	Owner OwnerEnd
	asked time.Time
	// looked is when slurmctld was last asked about a job that only pods name.
	looked time.Time
	// Said is the last event about waiting, and SaidAt when it was.
	Said   string
	SaidAt time.Time

	orders int
}

// Spec is what a group asks Slurm for.
type Spec struct {
	// UID is the group's, and Name its namespace and name, for people.
	UID, Name string
	// User is Slurm's user of the namespace, and Args are sbatch's.
	User string
	Args []string
	// Size is how many pods the group has at once, and Whole how many that have ended well end a gang; 0 if their owner alone
	// knows. Gang says that pods may replace one another in it.
	Size, Whole int
	Gang        bool
	// Fault is why the group cannot be submitted as it is, in a sentence; empty if it can.
	Fault string
}

// Pod is one of a group's.
type Pod struct {
	UID, Name string
	Created   time.Time
	// Gated says that the pod has the gate, Deleting that somebody has deleted it, and Over that no container of it
	// will run again. Status is then its exit status.
	Gated, Deleting, Over bool
	Status                int
	// Scheduled says that kube-scheduler has bound the pod to its node. Unscheduled is why it has not, where it says so.
	Scheduled   bool
	Unscheduled string
	// Refused is why the kubelet has not run the pod, or has ended it for a critical one, where it says so. The pod is Over.
	Refused string
	// Alone says that the pod has no controller, so that nobody replaces it.
	Alone bool
	// Slot is the task that the pod wants, as its index says; -1 for any.
	Slot int
	// Place is where the pod was put; its Job is 0 before that.
	Place

	// bound is when this replica put the pod there, or saw it there first, or without the gate first. bind and deleted are when it last tried
	// to put it there and to delete it.
	bound, bind, deleted time.Time
	// warned says that an event has told that kube-scheduler does not bind the pod.
	warned bool
}

// Place is a task of a job's run, on a node as Slurm names it.
type Place struct {
	Job  uint32
	Run  Run
	Node string
	Rank int
}

// Run is one run of a job, which Slurm may requeue.
type Run struct {
	Restarts int
	// Start is in seconds, as Slurm has it.
	Start int64
}

// Job is one that stands for the group.
type Job struct {
	wire.QueuedJob
	// told is when slurmctld's word came; zero if only its number is known.
	told time.Time
	// tried is when an order about the job was last given, and ends how many ended it.
	tried time.Time
	ends  int
	// finished is how many orders to finish the job a gateway has answered: one that slurmctld has not heard does not count.
	finished int
	// look says that slurmctld is to be asked about the job.
	look bool
	// confirmed says that slurmctld has said so of the run, when it was asked after all epilogs had asked: its nodes
	// get pods only then.
	confirmed    bool
	confirmedRun Run
	// holds are the nodes that have said that the job's end waits there for its pods.
	holds []string
	// cancelled says that the job is one too many.
	cancelled bool
	// returned is when the job was last ended because kube-scheduler does not bind a pod of it.
	returned time.Time
}

func (j *Job) run() Run {
	if j.Start.IsZero() {
		return Run{Restarts: j.Restarts}
	}
	return Run{Restarts: j.Restarts, Start: j.Start.Unix()}
}

type over struct {
	job uint32
	run Run
}

// OwnerEnd is how the Job or JobSet that owns the pods has ended.
type OwnerEnd struct {
	Done   bool
	Status int
}

// Class is what a job's state means to its pods.
type Class int

// The classes.
const (
	Unclear  Class = iota // nobody knows, or the job is stopped: its pods stay as they are
	Waiting               // it has no nodes
	Starting              // it has nodes, which are not ready
	Running
	Leaving // it ends, and its nodes take no other job
	Past
)

var classes = map[string]Class{
	"PENDING": Waiting, "REQUEUED": Waiting, "REQUEUE_HOLD": Waiting, "REQUEUE_FED": Waiting, "SPECIAL_EXIT": Waiting,
	"CONFIGURING": Starting, "RUNNING": Running, "COMPLETING": Leaving, "STAGE_OUT": Leaving,
	"BOOT_FAIL": Past, "CANCELLED": Past, "COMPLETED": Past, "DEADLINE": Past, "FAILED": Past, "NODE_FAIL": Past,
	"OUT_OF_MEMORY": Past, "PREEMPTED": Past, "REVOKED": Past, "TIMEOUT": Past, "LAUNCH_FAILED": Past,
}

func (j *Job) class() Class {
	if j.Gone {
		return Past
	}
	return classes[j.State]
}

// word is the job's state for people.
func (j *Job) word() string {
	if j.Gone && classes[j.State] != Past {
		return "slurmctld knows it no more"
	}
	return j.State
}

// Phase is where a group is.
type Phase string

// The phases.
const (
	Gathering    Phase = "Gathering"
	Queued       Phase = "Queued"
	Granted      Phase = "Granted"
	RunningPhase Phase = "Running"
	Ending       Phase = "Ending"
	Ended        Phase = "Ended"
)

// Phase is where the group is.
func (s *State) Phase() Phase {
	waits := slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.waits() })
	j := s.chosen()
	switch {
	case j != nil && j.class() == Waiting || j != nil && j.class() == Starting:
		return Queued
	case j != nil && waits:
		return Granted
	case j != nil:
		return RunningPhase
	case slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.Job != 0 && !p.Over }):
		return Ending
	case waits:
		return Gathering
	}
	return Ended
}

// Done says that nobody needs the state.
func (s *State) Done() bool {
	return len(s.Pods) == 0 && s.Order.Kind == "" && !slices.ContainsFunc(s.Jobs, func(j Job) bool { return j.class() != Past })
}

// Leave says whether a pod may go to another group: none of the jobs has it.
func (s *State) Leave(uid string) bool {
	p := s.pod(uid)
	return p == nil || p.waits()
}

// waits says whether the pod needs a task.
func (p *Pod) waits() bool { return p.Gated && !p.Deleting && !p.Over && p.Job == 0 }

func (s *State) pod(uid string) *Pod {
	for i := range s.Pods {
		if s.Pods[i].UID == uid {
			return &s.Pods[i]
		}
	}
	return nil
}

func (s *State) job(id uint32) *Job {
	for i := range s.Jobs {
		if s.Jobs[i].ID == id {
			return &s.Jobs[i]
		}
	}
	return nil
}

// Jobs' and pods' slices are those of one State alone: clone gives a step its own.
func (s *State) clone() State {
	c := *s
	c.Pods, c.Jobs, c.Over = slices.Clone(s.Pods), slices.Clone(s.Jobs), slices.Clone(s.Over)
	return c
}

// OnNode are the pods of a job that are on a node, or may come there by a request that is under way: only without any
// may the job's epilog end.
func (s *State) OnNode(job uint32, node string) (names []string) {
	for _, p := range s.Pods {
		if p.Job == job && p.Node == node && !p.Over {
			names = append(names, p.Name)
		}
	}
	return names
}
