// Package nodesize finds out what a pod was given, and says it as Slurm does: the
// size of a node, its features, and the time that it has to end. It starts no
// process and uses no network.
package nodesize

import (
	"errors"

	"github.com/slurmlet/slurmlet/cgroup"
)

// Allocation is what the pod was given, and the node that is made of it. It
// changes when the pod is resized or its annotations are edited.
type Allocation struct {
	Resources Resources
	Size      Size
	Traits    Traits
	Grace     Grace
}

// Options are what the container's environment says about the pod.
type Options struct {
	// Root is where the machine's file system begins: "/" but in tests.
	Root string
	// PodInfo is the directory of the downward-API volume.
	PodInfo string
	// CPULimit is in thousandths of a CPU; MemoryLimit and StorageLimit are in bytes.
	// 0 is no limit.
	CPULimit, MemoryLimit, StorageLimit int64
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

// PodInfoError is a fault in what the downward-API volume holds. It can be
// mended while the container runs, which a wrong limit or variable cannot.
type PodInfoError struct{ Err error }

func (e PodInfoError) Error() string { return e.Err.Error() }
func (e PodInfoError) Unwrap() error { return e.Err }

// Measure looks at what the pod was given: the kernel's limits, the downward
// API's word on them, labels and annotations. With a PodInfoError, the
// allocation lacks only what could not be read.
func Measure(machine cgroup.FS, o Options) (Allocation, error) {
	info, infoErr := readPodInfo(o.Root, o.PodInfo)
	resources, err := readResources(machine, o, limitsNow(machine, o, info))
	if err != nil {
		return Allocation{}, err
	}
	if o.Disk.Bounded() {
		resources.Disk = o.Disk
	}
	size, err := NewSize(resources, o.Reserve)
	if err != nil {
		return Allocation{}, err
	}
	size.Gres = o.Gres
	grace, graceErr := newGrace(info, o.PodInfo)
	traits, err := newTraits(info, o.PodInfo)
	if err := errors.Join(infoErr, err, graceErr); err != nil {
		return Allocation{resources, size, Traits{}, grace}, PodInfoError{err}
	}
	return Allocation{resources, size, traits, grace}, nil
}

// limitsNow is the downward API's limits as they are now. The volume's files follow
// a resize; variables cannot, so one counts only as long as the kernel's own
// limit is what it was at the container's start.
func limitsNow(machine cgroup.FS, o Options, info podInfo) downward {
	d := o.downward()
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
