// Package reasons says whose a node's reason is.
//
// slurmctld keeps one text beside a node's DRAIN, DOWN or FAIL, and nothing else says who has set the state. slurmlet
// lifts no state that somebody else has set, so the beginnings of all texts that slurmlet writes there are here, with those
// of slurmctld that slurmlet must know. What follows a beginning is its writer's: internal/slurmd/drains, and
// internal/slurmctld/elastic/planner for nodes that do not start. The package imports nothing, because slurmlet's controller
// links it too.
package reasons

import "strings"

// Owner says who has given a node's reason: slurmctld, an agent, or an admin.
type Owner int

// The owners. All but Nobody, Agent and slurmctld's count as somebody who keeps the node from jobs on purpose.
const (
	// Nobody has given one.
	Nobody Owner = iota
	// Agent is an agent of slurmlet's, which lifts the state itself.
	Agent
	// Command is "slurmlet drain", and "slurmlet resume" lifts the state.
	Command
	// Kubernetes wants no jobs on the node's machine. The node's agent lifts the state when that is over.
	Kubernetes
	// Disk is the pod's disk, nearly full. The node's agent lifts the state when it has room again.
	Disk
	// Pods are Kubernetes', which outlive their job on the node. The node's agent lifts the state when they are gone.
	Pods
	// Silent is slurmctld: it had no answer of the node's slurmd, or the slurmd of a node that it powers up has not come.
	Silent
	// Relaunched is slurmctld: a job ran on the node that slurmctld had forgotten.
	Relaunched
	// Registration is slurmctld: slurmd has registered less than the record has.
	Registration
	// Person is anybody else: an administrator, a site's HealthCheckProgram, a prolog that failed.
	Person
)

// IsSlurmlet says whether an agent has set the state, and lifts it itself.
func (o Owner) IsSlurmlet() bool { return o == Agent || o == Kubernetes || o == Disk || o == Pods }

// How slurmlet's reasons begin.
const (
	ByAgent      = "slurmlet: "
	ByCommand    = "slurmlet drain: "
	ByKubernetes = "slurmlet cordon: "
	ByDisk       = "slurmlet disk: "
	ByPods       = "slurmlet pods: "
)

// Beginnings are all of them.
func Beginnings() []string { return []string{ByAgent, ByCommand, ByKubernetes, ByDisk, ByPods} }

// These begin the reasons that agents give.
const (
	// Terminating is that of a node whose pod is on its way down.
	Terminating = ByAgent + "pod is terminating"
	// Resized is that of a node whose pod has another size than the record.
	Resized = ByAgent + "the pod is of another size than the record"
	// Stale is that of a node on which jobs died with an earlier container, until they have been requeued.
	Stale = ByAgent + "jobs have died with an earlier container"
	// Back replaces the reason of a node that is resumed: slurmctld keeps that of a drain until the node's next job, and
	// takes no empty one.
	Back = ByAgent + "the node takes jobs again"
	// Kept begins those of records that stay although their pods are gone. The agent of the next pod of the name lifts it.
	Kept = ByAgent + "the pod is gone, and "
	// Renewed is that of a record that was made anew with its pod's size, until slurmd registers.
	Renewed = ByAgent + "the record has the pod's new size, and slurmd has not registered"
	// LostMachine is that of a node whose machine is gone. The agent of a new pod with the name lifts it.
	LostMachine = ByAgent + "Kubernetes says that the machine is gone"
	// SetResized, SetRemoved and SetNew are the reasons of elastic nodes.
	SetResized = ByAgent + "the set has nodes of another size now"
	SetRemoved = ByAgent + "no set has this node any more"
	SetNew     = ByAgent + "the record is new"
)

// These begin the reasons that slurmctld gives (ping_nodes.c, power_save.c and node_mgr.c of slurmctld).
const (
	NotResponding = "Not responding"
	TimedOut      = "ResumeTimeout reached"
	// DuplicateJob is of a job that slurmctld had forgotten.
	DuplicateJob = "Duplicate jobid"
)

// separator stands between a reason that was there and one that slurmctld appends ("disk : Not responding").
const separator = " : "

// owners are the beginnings by which a reason shows its owner.
var owners = []struct {
	owner     Owner
	beginning string
	whole     bool
}{
	{Agent, ByAgent, false},
	{Command, ByCommand, false},
	{Kubernetes, ByKubernetes, false},
	{Disk, ByDisk, false},
	{Pods, ByPods, false},
	{Silent, NotResponding, true},
	{Silent, TimedOut, true},
	{Relaunched, DuplicateJob, true},
	{Registration, "Low ", false},
	{Registration, "CoreSpec differ", false},
	{Registration, "gres/", false},
}

// Of says whose a node's reason is: of several that slurmctld has put together, whose the first is.
func Of(text string) Owner {
	text = First(text)
	if text == "" {
		return Nobody
	}
	for _, o := range owners {
		if text == o.beginning || !o.whole && strings.HasPrefix(text, o.beginning) {
			return o.owner
		}
	}
	return Person
}

// First is the part of a reason that was there before slurmctld appended its own.
func First(text string) string {
	first, _, _ := strings.Cut(text, separator)
	return first
}

// Has says whether a text is a reason, or one that slurmctld has put together with others. slurmctld 24.11 without
// slurmdbd keeps such a one when the node is back.
func Has(reason, text string) bool {
	for part := range strings.SplitSeq(reason, separator) {
		if part == text {
			return true
		}
	}
	return false
}

// IsGres says whether slurmctld has found fewer devices registered than the record has ("gres/gpu count reported lower
// than configured").
func IsGres(text string) bool { return strings.HasPrefix(text, "gres/") }

// OfSet says whether slurmctld's agent has drained an elastic node because of its set. It lifts that itself.
func OfSet(text string) bool {
	why, own := strings.CutPrefix(text, ByAgent)
	return own && (strings.HasPrefix(why, "the set ") || strings.HasPrefix(why, "no set "))
}

// IsKept says whether a record stays although its pod is gone, and why.
func IsKept(text string) (why string, kept bool) {
	why, kept = strings.CutPrefix(text, Kept)
	return First(why), kept
}
