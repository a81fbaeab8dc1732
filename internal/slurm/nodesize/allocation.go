// Package nodesize has the size of a Slurm node, its features, and the time that its pod has to end, as slurmd registers
// them and as slurmctld's record must say. It asks nobody: internal/slurmd/podsize measures a pod, and elastic sets
// compute what a pod will measure (Promised).
package nodesize

import "github.com/slurmlet/slurmlet/cgroup"

// Allocation is what the pod was given, and the node that is made of it. It
// changes when the pod is resized or its annotations are edited.
type Allocation struct {
	Resources Resources
	Size      Size
	Traits    Traits
	Grace     Grace
}

// Resources is what the pod was given, every source considered, and the
// machine that it stands on.
type Resources struct {
	cgroup.Limits
	// Disk is what TmpDisk can be, in bytes: the least of the spool directory's
	// file system, TmpFS's, and the limit of ephemeral storage.
	Disk cgroup.Bound[int64] `json:"disk"`
	// Online is the machine's CPUs, MemTotal its memory in bytes.
	Online   cgroup.Set `json:"online"`
	MemTotal int64      `json:"mem_total"`
	// CPUTopology is read only where the node is registered with the machine's CPUs.
	CPUTopology cgroup.Topology `json:"topology,omitzero"`
	// Disagreements say where the sources contradict each other.
	Disagreements []string `json:"disagreements,omitempty"`
}

// PodInfoError is a fault in what the downward-API volume holds. It can be
// mended while the container runs, which a wrong limit or variable cannot.
type PodInfoError struct{ Err error }

func (e PodInfoError) Error() string { return e.Err.Error() }
func (e PodInfoError) Unwrap() error { return e.Err }
