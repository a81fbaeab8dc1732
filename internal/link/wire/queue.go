package wire

import (
	"strconv"
	"strings"
	"time"
)

// Kubernetes' pods wait in Slurm's queue. Three parties speak of them, always with the replica that writes (421 names
// no other one: the Service leads to it soon), and with the pods' tokens as in Report:
//
//	POST /v1/gateway      one GatewayReport of a login pod's agent that has a gateway
//	→ 200 and GatewayOrders, after 20 s at most; without orders for that long: none
//	POST /v1/jobs/started one Started of a slurmd's agent: a hint that makes the controller look
//	→ 204
//	GET  /v1/jobs/pods?job=7&node=w3   asked by the epilog's agent on each node
//	→ 200 and JobPods: pods of that job are still on that node (held up to 20 s while there are), 204: none is,
//	  503: this replica does not know all pods yet. Only 204 lets an epilog end. Without job: pods of any job.
//
// Orders come at least once. Submit is preceded by Find wherever an answer may have been lost; Cancel and Finish may be
// repeated. Everything that a job or its script says is a hint: user, comment, nodes and state are slurmctld's.

// GroupComment begins the comment of a job that stands for a group of pods: slurmlet.dev/group=UID NAMESPACE/NAME. What
// follows the group's UID is for people.
const GroupComment = "slurmlet.dev/group="

// GroupOf are the group's UID that a job's comment names, and its NAMESPACE/NAME; empty for other comments.
func GroupOf(comment string) (uid, name string) {
	if rest, is := strings.CutPrefix(comment, GroupComment); is {
		uid, name, _ = strings.Cut(rest, " ")
		name, _, _ = strings.Cut(name, " ")
	}
	return uid, name
}

// statusMark is before the exit status of a group's pods, the last word of the job's comment.
const statusMark = " exit="

// WithStatus is a group's comment with the exit status of its pods, which the job's batch script then has, too.
func WithStatus(comment string, status int) string {
	comment, _, _ = strings.Cut(comment, statusMark)
	return comment + statusMark + strconv.Itoa(status)
}

// StatusOf is the exit status that a group's comment has; 1 where it has none.
func StatusOf(comment string) int {
	_, text, _ := strings.Cut(comment, statusMark)
	if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 8); err == nil && n > 0 {
		return int(n)
	}
	return 1
}

// HoldScript is the batch script of such a job, the only one that a gateway submits.
const HoldScript = "#!/bin/sh\nexec /run/slurmlet/hold\n"

// GatewayReport is what a gateway tells: the results of orders, and the jobs of groups.
type GatewayReport struct {
	// Gateway is an id of the agent's process.
	Gateway string `json:"gateway"`
	// Whole says that Jobs are all jobs of groups that slurmctld has; else they are those that have changed.
	Whole   bool          `json:"whole,omitempty"`
	Jobs    []QueuedJob   `json:"jobs,omitempty"`
	Results []OrderResult `json:"results,omitempty"`
}

// QueuedJob is a job of a group of pods, as slurmctld knows it.
type QueuedJob struct {
	ID      uint32 `json:"id"`
	User    string `json:"user"`
	Comment string `json:"comment"`
	// State is Slurm's word (PENDING, CONFIGURING, RUNNING, COMPLETING, and those of an end), and Reason why it waits.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Nodes are the names of its nodes in Slurm's order, and Tasks how many of its tasks each has.
	Nodes []string `json:"nodes,omitempty"`
	Tasks []int    `json:"tasks,omitempty"`
	// Start is when it has begun, and Restarts how often it has been requeued: both together are one run of the job.
	Start    time.Time `json:"start,omitzero"`
	Restarts int       `json:"restarts,omitempty"`
	// Gone says that slurmctld has answered that there is no such job. Silence and errors never say so.
	Gone bool `json:"gone,omitempty"`
}

// OrderKind says what a gateway is to do.
type OrderKind string

// The kinds.
const (
	// Submit submits a job as Order.User: sbatch with Order.Args, and Order.Script as the batch script.
	Submit OrderKind = "submit"
	// Find finds the job of Order.User whose comment begins with Order.Comment.
	Find OrderKind = "find"
	// Look asks slurmctld about one job, and reports it.
	Look OrderKind = "look"
	// Cancel cancels Order.Job as its user.
	Cancel OrderKind = "cancel"
	// Finish ends Order.Job with an exit status: its script ends with Order.Status.
	Finish OrderKind = "finish"
)

// Order is one thing that a gateway is to do.
type Order struct {
	ID      string    `json:"id"`
	Kind    OrderKind `json:"kind"`
	User    string    `json:"user"`
	Args    []string  `json:"args,omitempty"`
	Script  string    `json:"script,omitempty"`
	Comment string    `json:"comment,omitempty"`
	Job     uint32    `json:"job,omitempty"`
	Status  int       `json:"status,omitempty"`
}

// GatewayOrders is the answer to a GatewayReport.
type GatewayOrders struct {
	Orders []Order `json:"orders,omitempty"`
	// All asks for a whole report: this replica is new.
	All bool `json:"all,omitempty"`
}

// OrderResult is what became of an order. Neither Job, None nor Refused means that nobody knows.
type OrderResult struct {
	Order string `json:"order"`
	// Job is the job that was submitted, found or changed.
	Job uint32 `json:"job,omitempty"`
	// None says that slurmctld has answered that there is no such job.
	None bool `json:"none,omitempty"`
	// Refused is Slurm's sentence, where it refuses the job as it is. Unknown is any other failure.
	Refused string `json:"refused,omitempty"`
	Unknown string `json:"unknown,omitempty"`
}

// Started is what a slurmd's agent says of a job of a group: its node holds for the job, so the job's end waits there until
// the controller says that no pod of it is on the node. Each node's agent says so for itself, and again while it holds. A pod
// may be let onto a node that has said so, as long as the controller has not answered since that none is there.
type Started struct {
	Job uint32 `json:"job"`
	// Ending says that the job's script has been told to end. It is a hint.
	Ending bool `json:"ending,omitempty"`
}

// JobPods are pods of a job that are on a node, as namespace/name; 16 at most.
type JobPods struct {
	Pods []string `json:"pods"`
}
