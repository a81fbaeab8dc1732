package wire

import (
	"time"
)

// Answer is what the replica that writes says to a Report.
type Answer struct {
	// Failing are the pods of wanted nodes that do not start, whole each time.
	Failing Failing `json:"failing"`
	// Soon asks for the next report within seconds: pods are on their way.
	Soon bool `json:"soon,omitempty"`
}

// Failing are the pods of elastic nodes that do not start, by what keeps them from it.
type Failing struct {
	Pods []Failure `json:"pods"`
}

// Failure is what keeps the pods of some nodes from starting.
type Failure struct {
	// Nodes is a host list.
	Nodes string `json:"nodes"`
	// Reason is Kubernetes' word, or FailedCreate, NoTemplate or BadTemplate. Note is Kubernetes' sentence.
	Reason string `json:"reason"`
	Note   string `json:"note,omitempty"`
	// Since is when the first of them failed.
	Since time.Time `json:"since"`
}

// Report is what slurmctld's agent reports of its nodes.
type Report struct {
	// Whole says that Nodes are all; else they are those that have changed.
	Whole bool         `json:"whole,omitempty"`
	Nodes []NodeReport `json:"nodes,omitempty"`
	// Conf distinguishes the content of the directory with slurm.conf, without its keys, from others (confset.TextsDigest). It is in
	// each report; empty: the directory cannot be read, or the agent is one of before.
	Conf string `json:"conf,omitempty"`
}

// NodeReport is a node as slurmctld knows it.
type NodeReport struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Drain is the reason of a drain, if there is one.
	Drain string `json:"drain,omitempty"`
	// Elastic is the elastic node set that has the node; empty for none. Wanted: Slurm wants its pod.
	Elastic string `json:"elastic,omitempty"`
	Wanted  bool   `json:"wanted,omitempty"`
}

// State is what matters of a node's state to Kubernetes.
type State string

// The states.
const (
	Idle   State = "idle"   // registered, and no job holds it
	Busy   State = "busy"   // a job holds it, or a reservation has it
	Absent State = "absent" // no record, or one whose slurmd does not answer
)
