// Package why says why a job or a node waits, and what ends that: Facts go in, an Answer comes out.
//
// Nothing here asks anybody but for Gather, which collects the facts of Slurm, of slurmlet's agents and of Kubernetes.
// Where the facts show no cause, the answer says so and shows them. A cause that is certain stands before one that is
// likely, and that before one that is possible.
package why

import (
	"time"

	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
)

// Facts are what is known of a job or a node, and of what it may wait for. What is nil or empty was not asked for, is
// not there, or is among Unknown.
type Facts struct {
	Now time.Time `json:"now"`
	// Job or Name is what the question is about. Node is the record of the node Name.
	Job  *slurm.Job  `json:"job,omitempty"`
	Name string      `json:"name,omitempty"`
	Node *slurm.Node `json:"node,omitempty"`
	// Forgotten: slurmctld does not know Job any more, and accounting does.
	Forgotten bool `json:"forgotten,omitempty"`
	// Groups are the nodes of the job's partitions, Partitions these partitions.
	Groups     []slurm.Group     `json:"groups,omitempty"`
	Partitions []slurm.Partition `json:"partitions,omitempty"`
	// Queue are the jobs that wait in them, the first in turn first. Others are the jobs that the job depends on.
	Queue        []slurm.Waiting     `json:"queue,omitempty"`
	Others       []slurm.Job         `json:"others,omitempty"`
	Reservations []slurm.Reservation `json:"reservations,omitempty"`
	Licenses     []slurm.License     `json:"licenses,omitempty"`
	Limits       []slurm.Limit       `json:"limits,omitempty"`
	// Controller is what slurmctld's agent says, Agent what that of the node says.
	Controller *slurm.Agent `json:"controller,omitempty"`
	Agent      *slurm.Agent `json:"agent,omitempty"`
	// Pods are those of nodes, by the nodes' names, and Machines those that they run on, by theirs.
	Pods     map[string]*Pod     `json:"pods,omitempty"`
	Machines map[string]*Machine `json:"machines,omitempty"`
	// NotMade are Kubernetes' words on pods that it has refused to make.
	NotMade []Event `json:"not_made,omitempty"`
	// Unknown are facts that could not be had, and why, as sentences.
	Unknown []string `json:"unknown,omitempty"`
}

// Pod is what Kubernetes says of a pod.
type Pod struct {
	Name    string `json:"name"`
	Role    string `json:"role,omitempty"`
	Set     string `json:"set,omitempty"`
	Elastic string `json:"elastic,omitempty"`
	Machine string `json:"machine,omitempty"`
	Phase   string `json:"phase"`
	Ready   bool   `json:"ready"`
	// Deleting is when its deletion began, Grace how many seconds it has then.
	Deleting time.Time `json:"deleting,omitzero"`
	Grace    int64     `json:"grace,omitempty"`
	// Reason and Message are of a pod that has failed (Evicted), Unscheduled of one without a machine.
	Reason      string `json:"reason,omitempty"`
	Message     string `json:"message,omitempty"`
	Unscheduled string `json:"unscheduled,omitempty"`
	// Waits and WaitsFor are of a container that does not run (ErrImagePull).
	Waits    string `json:"waits,omitempty"`
	WaitsFor string `json:"waits_for,omitempty"`
	Image    string `json:"image,omitempty"`
	// LastEnd is why the container has ended last (OOMKilled), with its status and the time.
	LastEnd    string    `json:"last_end,omitempty"`
	LastStatus int32     `json:"last_status,omitempty"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	Restarts   int32     `json:"restarts,omitempty"`
	// LastWords are the warnings and errors in the log of the container that has ended.
	LastWords []string `json:"last_words,omitempty"`
	Events    []Event  `json:"events,omitempty"`
}

// Event is a warning of Kubernetes'.
type Event struct {
	Object  string    `json:"object,omitempty"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Last    time.Time `json:"last,omitzero"`
}

// Machine is a Kubernetes node.
type Machine struct {
	Name string `json:"name"`
	// Missing: Kubernetes knows no such node any more.
	Missing  bool `json:"missing,omitempty"`
	Cordoned bool `json:"cordoned,omitempty"`
	// BySlurm is the reason of the Slurm drain for which slurmlet's controller has cordoned it.
	BySlurm string   `json:"by_slurm,omitempty"`
	Taints  []string `json:"taints,omitempty"`
	// Unready is why the machine is not Ready.
	Unready string `json:"unready,omitempty"`
}

// Certainty is how sure a cause is.
type Certainty string

// The certainties, the surest first.
const (
	Certain  Certainty = "certain"
	Likely   Certainty = "likely"
	Possible Certainty = "possible"
)

// Answer says why.
type Answer struct {
	// About is what the question is about, and how it stands.
	About  string  `json:"about"`
	Causes []Cause `json:"causes"`
	// Fine: there is nothing to mend.
	Fine bool `json:"fine,omitempty"`
	// Facts are shown where no cause is certain.
	Facts   []string `json:"facts,omitempty"`
	Unknown []string `json:"unknown,omitempty"`
}

// Cause is one, with what ends it.
type Cause struct {
	// Kind is a word for programs.
	Kind string    `json:"kind"`
	Sure Certainty `json:"certainty"`
	Text string    `json:"text"`
	// Details are what the text is concluded from.
	Details []string `json:"details,omitempty"`
	Cures   []Cure   `json:"cures,omitempty"`
}

// Cure is what ends a cause: a command, or where there is none a text alone.
type Cure struct {
	Text    string   `json:"text"`
	Command *Command `json:"command,omitempty"`
}

// Command is one for a person.
type Command struct {
	// Slurm: it runs in a pod, where slurmctld is. Otherwise it runs on the person's machine.
	Slurm bool     `json:"slurm,omitempty"`
	Args  []string `json:"args"`
}

func do(text string, args ...string) Cure { return Cure{text, &Command{Args: args}} }

func doSlurm(text string, args ...string) Cure { return Cure{text, &Command{Slurm: true, Args: args}} }

func advise(text string) Cure { return Cure{Text: text} }
