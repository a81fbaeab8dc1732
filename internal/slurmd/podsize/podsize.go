// Package podsize measures slurmd's pod: what the pod was given, which devices it has, and which of the cluster's settings
// do not go with that. It starts no process and uses no network. internal/slurm/nodesize has the node that is made of it.
package podsize

import (
	"errors"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// Options are what the container's environment says about the pod.
type Options struct {
	// Root is where the machine's file system begins: "/" but in tests.
	Root string
	// PodInfo is the directory of the downward-API volume.
	PodInfo string
	// CPULimit is in thousandths of a CPU; MemoryLimit and StorageLimit are in bytes.
	// 0 is no limit.
	CPULimit, MemoryLimit, StorageLimit int64
	// Shared is what the node's pods besides slurmd's have of a machine that Slurm shares with Kubernetes; nil where the
	// node is as large as its pod.
	Shared *Shared
	// Reserve is the memory that jobs do not get, in bytes.
	Reserve int64
	// SpoolDir and TmpDir are slurm.conf's SlurmdSpoolDir and TmpFS.
	SpoolDir, TmpDir string
	// Gres is what the node registers, in Slurm's words.
	Gres string
	// AtStart is the kernel's limits when the container began, nil before that is known.
	AtStart *cgroup.Limits
	// Disk is the disk that an earlier Measure found, if it is bounded. A file system
	// whose size changes is no resize of the pod.
	Disk cgroup.Bound[int64]
}

// Measure looks at what the pod was given: the kernel's limits, the downward
// API's word on them, labels and annotations. With a PodInfoError, the
// allocation lacks only what could not be read.
func Measure(machine cgroup.FS, o Options) (nodesize.Allocation, error) {
	info, infoErr := readPodInfo(o.Root, o.PodInfo)
	now, err := o.Shared.without(limitsNow(machine, o, info))
	if err != nil {
		return nodesize.Allocation{}, err
	}
	resources, err := readResources(machine, o, now)
	if err != nil {
		return nodesize.Allocation{}, err
	}
	if o.Disk.Bounded() {
		resources.Disk = o.Disk
	}
	size, err := nodesize.NewSize(resources, o.Reserve)
	if err != nil {
		return nodesize.Allocation{}, err
	}
	size.Gres = o.Gres
	find := info.finder(o.PodInfo)
	grace, graceErr := nodesize.FindGrace(find)
	traits, err := nodesize.FindTraits(find)
	a := nodesize.Allocation{Resources: resources, Size: size, Grace: grace}
	if err := errors.Join(infoErr, err, graceErr); err != nil {
		return a, nodesize.PodInfoError{Err: err}
	}
	a.Traits = traits
	return a, nil
}

// limitsNow is the downward API's limits as they are now. The volume's files follow
// a resize; variables cannot, so one counts only as long as the kernel's own
// limit is what it was at the container's start.
func limitsNow(machine cgroup.FS, o Options, info podInfo) downward {
	d := o.downward()
	if o.Shared != nil {
		return d // a container without limits has nothing to follow
	}
	if now, err := machine.Limits(); err == nil && o.AtStart != nil {
		if now.Quota != o.AtStart.Quota {
			d.millicores = info.downward.millicores
		}
		if now.Memory != o.AtStart.Memory {
			d.memory = info.downward.memory
		}
	}
	if info.downward.millicores.Bounded() {
		d.millicores = info.downward.millicores
	}
	if info.downward.memory.Bounded() {
		d.memory = info.downward.memory
	}
	return d
}
