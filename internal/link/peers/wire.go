// Package peers is what the controller tells the agents of a cluster, and what slurmctld's agent
// tells the controller: the table of the cluster's pods, the stream that carries it, and the names
// that the agents put into /etc/hosts.
//
// An agent opens one stream and keeps it:
//
//	GET /v1/stream   Authorization: Bearer <the pod's projected token>
//	→ 200, application/x-ndjson: one Update a line, until one of both ends it
//
// With "Accept: application/x-ndjson;gzip=snapshot" whole tables come compressed: a line with Gzip, and as
// many bytes. A replica that hears nothing of Kubernetes refuses streams with 503, but for agents that
// have no table at all and take an old one: ?stale=yes.
//
// slurmctld's agent tells what its nodes do, on change only:
//
//	POST /v1/nodes   one Report, with If-Match unless it is whole
//	→ 204 and an ETag, or 412: this controller has not taken the report before, or 421: another one writes
//
// A report has 8 MiB and 65,536 nodes at most, and a pod has one on its way: its next one ends it. 400 and 413 come
// with a sentence about what is wrong with a report, 429 after too many, and 503 while others take the room.
//
// A controller that makes pods of elastic nodes answers 200 with an Answer in place of 204. What keeps pods from
// starting comes this way, and not by the stream, because only the replica that writes knows it, and another
// one may serve the stream.
package peers

import (
	"net/netip"
	"strings"
	"time"
)

// Audience is the audience of the tokens that agents show: a token of the Kubernetes API is refused.
const Audience = "slurmlet.dev/peers"

// Update is one line of the stream. One without any field, or with Stale alone, is a heartbeat.
type Update struct {
	// Revision counts the states of the cluster's table since Epoch, an id of the controller's process.
	Epoch    string `json:"epoch,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
	// Snapshot says that Peers is the whole table. The first Update of a stream that is no heartbeat is one.
	Snapshot bool `json:"snapshot,omitempty"`
	// Gzip is how many bytes follow the line: an Update that was compressed.
	Gzip int `json:"gzip,omitempty"`
	// Stale says that the controller hears nothing of Kubernetes, so that the table may be an old one.
	Stale bool `json:"stale,omitempty"`
	// Peers are new or changed; Gone are no more. With a snapshot, Gone are those whose machines were lost
	// lately, for agents whose streams were away.
	Peers []Peer `json:"peers,omitempty"`
	Gone  []Gone `json:"gone,omitempty"`
	// Self is what Kubernetes knows of the pod that reads, whole each time.
	Self *Self `json:"self,omitempty"`
	// Files are a ConfigMap that has changed, for slurmctld's agent.
	Files *Files `json:"files,omitempty"`
	// Returning is for slurmctld's agent, whole each time. Controllers of before, and those that watch no
	// workloads, tell none. Agents of before take the line for a heartbeat.
	Returning *Returning `json:"returning,omitempty"`
}

// heartbeat: the line has no news but that the controller is there.
func (u *Update) heartbeat() bool {
	return u.Epoch == "" && u.Self == nil && u.Files == nil && u.Returning == nil && len(u.Peers) == 0 && len(u.Gone) == 0
}

// Peer is a pod of the cluster.
type Peer struct {
	// Name is the pod's host name: a slurmd's is its NodeName.
	Name      string       `json:"name"`
	Role      string       `json:"role"`
	NodeSet   string       `json:"nodeSet,omitempty"`
	UID       string       `json:"uid"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Machine is the Kubernetes node that the pod runs on.
	Machine string `json:"machine,omitempty"`
	// Ending: the pod is being deleted.
	Ending bool `json:"ending,omitempty"`
}

// Gone is a peer that is no more.
type Gone struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Lost: Kubernetes knows that the machine is gone: nothing of the pod runs any more.
	Lost bool `json:"lost,omitempty"`
}

// Self is what Kubernetes knows of a pod and of its machine.
type Self struct {
	Machine string `json:"machine,omitempty"`
	// Labels are those of the machine's that the controller was told to pass on.
	Labels map[string]string `json:"labels,omitempty"`
	// Features, Topology and Weight are what the settings make of the labels, in Slurm's words.
	Features []string `json:"features,omitempty"`
	Topology string   `json:"topology,omitempty"`
	Weight   string   `json:"weight,omitempty"`
	// Drain is why the node must not take jobs: cordoned, or a taint or condition that a setting names. It is
	// a DrainReason.
	Drain string `json:"drain,omitempty"`
	// Deadline is when the kubelet kills the pod's containers by the API server's clock; zero while nobody
	// deletes it. GraceSeconds is what the deletion grants: the kubelet counts it from SIGTERM on, and so
	// does the agent, because clocks differ and SIGTERM may come late.
	Deadline     time.Time `json:"deadline,omitzero"`
	GraceSeconds int64     `json:"graceSeconds,omitempty"`
}

const drainPrefix = "machine "

// DrainReason is why a machine must not take jobs. It names the machine, so that an agent on another one knows
// that the reason is not its machine's.
func DrainReason(machine, why string) string { return drainPrefix + machine + " " + why }

// DrainedMachine is the machine of a DrainReason; empty if the text is none.
func DrainedMachine(reason string) string {
	rest, is := strings.CutPrefix(reason, drainPrefix)
	machine, _, more := strings.Cut(rest, " ")
	if !is || !more {
		return ""
	}
	return machine
}

// Files are a ConfigMap's, as the kubelet will deliver them. They are one line of their own, after the
// first Snapshot.
type Files struct {
	Name string `json:"name"`
	// ResourceVersion grows with each change in Kubernetes.
	ResourceVersion uint64 `json:"resourceVersion"`
	// Former are the last versions before this one, by which a reader knows an older content.
	Former []Version         `json:"former,omitempty"`
	Data   map[string]string `json:"data"`
}

// Version is a content that a ConfigMap had. Digest is confset.TextsDigest's.
type Version struct {
	ResourceVersion uint64 `json:"resourceVersion"`
	Digest          string `json:"digest"`
}

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

// Report is what slurmctld's agent tells of its nodes.
type Report struct {
	// Whole says that Nodes are all; else they are those that have changed.
	Whole bool         `json:"whole,omitempty"`
	Nodes []NodeReport `json:"nodes,omitempty"`
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
