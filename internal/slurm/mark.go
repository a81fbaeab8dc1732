package slurm

import (
	"strings"
	"time"
)

// markPrefix begins the Extra of a node whose slurmd an agent has started. podMark is in it where slurmlet's controller knows
// the pod.
const (
	markPrefix = `{"slurmlet":"`
	podMark    = `,"pod":true}`
)

// Mark is the Extra that the agent of a node has slurmd register, and by which slurmctld's agent knows the node's record as
// one of slurmlet's. isPod says that slurmlet's controller knows the pod.
func Mark(began time.Time, isPod bool) string {
	// An object, as SchedulerParameters=extra_constraints wants it (slurm.conf(5)).
	text := markPrefix + began.UTC().Format(time.RFC3339Nano) + `"`
	if isPod {
		return text + podMark
	}
	return text + "}"
}

// Marked says whether an agent has started the node's slurmd.
func (n *Node) Marked() bool { return strings.HasPrefix(n.Extra, markPrefix) }

// MarkedPod says whether that agent is of a pod that slurmlet's controller knows.
func (n *Node) MarkedPod() bool { return n.Marked() && strings.Contains(n.Extra, podMark) }
