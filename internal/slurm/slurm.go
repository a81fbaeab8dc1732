// Package slurm asks Slurm what the agent needs to know, and has it make the
// changes that the agent needs. The one implementation runs
// scontrol(1) and its kind: they are in every image, speak their own Slurm version's
// protocol and use the cluster's own authentication.
package slurm

import (
	"context"
	"errors"
)

// ErrBusy says that slurmctld refused to delete a node record because jobs or
// a reservation that has begun use it.
var ErrBusy = errors.New("the node is busy")

// ErrNoNode says that slurmctld has no record of the node.
var ErrNoNode = errors.New("there is no such record")

// ErrNoRecord says that there is nothing to drain or resume.
var ErrNoRecord = errors.New("slurmctld has no record of this node")

// ErrKept says that a record was not deleted because a job or a reservation names the node. It is DOWN, and
// drained.
var ErrKept = errors.New("the record stays")

// ErrUnreachable says that there was no answer: neither yes nor no.
var ErrUnreachable = errors.New("slurmctld does not answer")

// Client is what the agent asks of a Slurm cluster.
type Client interface {
	// Ping returns nil when the primary slurmctld answers.
	Ping(ctx context.Context) error
	// Node returns the record of a node, nil when slurmctld answers that it has none. The cost
	// for slurmctld is that of one node, unless the node is in no partition or has no record. A
	// Node says which of its fields are unknown then.
	Node(ctx context.Context, name string) (*Node, error)
	// Glance does so too, at that cost always: nil is no proof that there is no record.
	Glance(ctx context.Context, name string) (*Node, error)
	// WholeNode returns the record with all of its fields, at the cost of all nodes.
	WholeNode(ctx context.Context, name string) (*Node, error)
	// Recorded returns the names of those nodes of a host list that have a record, at the cost of
	// all nodes. slurmctld counts the allocated CPUs of all of them anew, and Glance says what it
	// has counted last.
	Recorded(ctx context.Context, names string) ([]string, error)
	// Nodes returns all node records.
	Nodes(ctx context.Context) ([]Node, error)
	// Reconfigure has slurmctld read its configuration again and push it to the
	// nodes. Success means that slurmctld's successor is up.
	Reconfigure(ctx context.Context) error
	// Outgoing returns what slurmctld has to send the nodes.
	Outgoing(ctx context.Context) (Outgoing, error)
	// Reserve keeps jobs from being started on any node for a minute, by a reservation
	// of that name; Unreserve ends it.
	Reserve(ctx context.Context, name string) error
	Unreserve(ctx context.Context, name string) error
	// Parse has Slurm's own parser read the slurm.conf at a path, and what it
	// includes. It asks no daemon.
	Parse(ctx context.Context, path string) error
	// Registered says whether slurmdbd knows a cluster.
	Registered(ctx context.Context, cluster string) (bool, error)
	// Config returns the cluster's configuration.
	Config(ctx context.Context) (Config, error)
	// DeleteNode deletes a node record; of one that is gone already it says ErrNoNode.
	DeleteNode(ctx context.Context, name string) error
	// DeleteNodes deletes the records of a host list. With an error, kept is a host list of
	// those that are not deleted, empty where slurmctld has not named them.
	DeleteNodes(ctx context.Context, names string) (kept string, err error)
	// CreateNodes makes the records of a host list, with parameters of a NodeName line (slurm.conf(5)). Slurm 24.11
	// deletes a record that there is already, and then makes none of the rest.
	CreateNodes(ctx context.Context, names string, parameters []string) error
	// DrainNode sets a node to drain: running jobs go on, no new ones come. The name may be a
	// host list, as in FailNode and ResumeNode; an error may then be for some of them.
	DrainNode(ctx context.Context, name, reason string) error
	// FailNode sets a node DOWN, which takes its jobs off it at once: they are
	// requeued where they may be, with all parts of a heterogeneous one, or end
	// as NODE_FAIL. Their processes live on until slurmd has ended them, with
	// KillWait between SIGTERM and SIGKILL.
	FailNode(ctx context.Context, name, reason string) error
	// PowerDownNode drains a node, and has slurmctld suspend it when its jobs have ended (power
	// saving). The reason may be empty: then that of an earlier drain stays. The name may be a host
	// list, as in PowerOffNode.
	PowerDownNode(ctx context.Context, name, reason string) error
	// PowerOffNode takes the jobs off a node as FailNode does, and has slurmctld suspend it at once.
	PowerOffNode(ctx context.Context, name, reason string) error
	// ResumeNode lifts a drain.
	ResumeNode(ctx context.Context, name string) error
	// ReinstateNode lifts a drain, and has the node's reason say that it is back.
	ReinstateNode(ctx context.Context, name string) error
	// UpdateNode changes fields of a node record ("Weight=5"), as jobs run on.
	UpdateNode(ctx context.Context, name string, fields []string) error
	// Job returns a job, nil when slurmctld answers that it has none.
	Job(ctx context.Context, id string) (*Job, error)
	// Step returns a step ("3.batch"), nil when slurmctld answers that it has none.
	Step(ctx context.Context, id string) (*Step, error)
	// Steps returns a job's steps, none of a job that slurmctld does not know.
	Steps(ctx context.Context, job string) ([]Step, error)
	// JobsOn returns the ids of the jobs that hold a node, for Job; of a node
	// without a record there are none.
	JobsOn(ctx context.Context, node string) ([]string, error)
	// Unfinished returns the jobs that slurmctld has not done with, in any partition.
	Unfinished(ctx context.Context) ([]Unfinished, error)
	// Claims returns the jobs that have not ended and the reservations, as far as they name nodes.
	Claims(ctx context.Context) ([]Claim, error)
	// JobClaims returns the jobs of them.
	JobClaims(ctx context.Context) ([]Claim, error)
	// RenewClaim has slurmctld find the records of the nodes that one names, by their names.
	RenewClaim(ctx context.Context, c *Claim) error
	// RenewNode makes a record, with parameters of a NodeName line, that is DOWN and drained.
	RenewNode(ctx context.Context, name string, parameters []string, reason string) error
	// Unassociated returns the pending jobs whose user has no association with the accounting of this cluster. Those of
	// begins wait for their begin.
	Unassociated(ctx context.Context, cluster string) (begins, others []Job, err error)
	// Completing returns which of the jobs are being ended, at the cost of their states.
	Completing(ctx context.Context, jobs []string) (map[string]bool, error)
	// States are the states of those jobs that slurmctld knows, by their own ids (9) and by those that users see (7_2).
	States(ctx context.Context, jobs []string) (map[string]string, error)
	// CommentJob sets a job's AdminComment; one that has ended keeps its own,
	// which is no error.
	CommentJob(ctx context.Context, job *Job, comment string) error
	// SignalJob sends a signal to a running job's steps, which may be none, or to
	// its batch shell alone; that of a heterogeneous job is its leader's,
	// whichever part is named. A job that has ended is no error.
	SignalJob(ctx context.Context, job *Job, signal string, batch bool) error
	// CancelJob ends a job, of an array only this task, of a heterogeneous job
	// only this part, or all with its leader; one that has ended already is no
	// error.
	CancelJob(ctx context.Context, job *Job) error
	// RequeueJob ends a running batch job and has it start anew, with all parts
	// of a heterogeneous one; one that has ended already is no error.
	RequeueJob(ctx context.Context, job *Job) error
	// ReleaseJob lifts the hold of a job, with all parts of a heterogeneous one.
	ReleaseJob(ctx context.Context, job *Job) error
}
