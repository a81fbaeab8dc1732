package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/hostname"
)

// Returning are the nodes whose pods their workloads make again under the same names. The pods of a Deployment or
// a DaemonSet get new names, so those are none.
type Returning struct {
	StatefulSets []StatefulSet `json:"statefulSets,omitempty"`
}

// StatefulSet is one whose pods are nodes: Name-First, and as many as Replicas, one number after the other.
type StatefulSet struct {
	Name     string `json:"name"`
	First    int    `json:"first,omitempty"`
	Replicas int    `json:"replicas"`
}

// mostSets bounds the sets of a cluster.
const mostSets = 10_000

// Check refuses what no controller sends. nil is well.
func (r *Returning) Check() error {
	if r == nil {
		return nil
	}
	if len(r.StatefulSets) > mostSets {
		return fmt.Errorf("there are %d StatefulSets, and %d are allowed", len(r.StatefulSets), mostSets)
	}
	for _, s := range r.StatefulSets {
		if !hostname.ValidPod(s.Name) || s.First < 0 || s.Replicas < 0 || s.First > math.MaxInt32 || s.Replicas > math.MaxInt32 {
			return fmt.Errorf("%.80q is no StatefulSet of nodes", s.Name)
		}
	}
	return nil
}

// Of is the workload that makes a node's pod again, in words; empty if there is none.
func (r *Returning) Of(node string) string {
	i := strings.LastIndexByte(node, '-')
	if r == nil || i < 0 || len(node) > hostname.Longest {
		return ""
	}
	ordinal, err := strconv.Atoi(node[i+1:])
	if err != nil || strconv.Itoa(ordinal) != node[i+1:] {
		return "" // 01 and +1 are no ordinals
	}
	for _, s := range r.StatefulSets {
		if s.Name == node[:i] && ordinal >= s.First && ordinal-s.First < s.Replicas {
			return "StatefulSet " + s.Name
		}
	}
	return ""
}
