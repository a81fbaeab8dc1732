package podsize

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// reading is what is found, while it is put together.
type reading struct{ nodesize.Resources }

// readResources asks the kernel and adds the downward API's limits. On a
// machine without cgroup v2 the downward API alone counts.
func readResources(machine cgroup.FS, o Options, also downward) (nodesize.Resources, error) {
	online, onlineErr := machine.Online()
	total, totalErr := machine.MemTotal()
	if err := errors.Join(onlineErr, totalErr); err != nil {
		return nodesize.Resources{}, err
	}
	limits, err := machine.Limits()
	var notes []string
	if errors.Is(err, cgroup.ErrNotUnified) {
		notes = append(notes, err.Error()+": only the downward API's limits are known")
		err = nil
	}
	if err != nil {
		return nodesize.Resources{}, err
	}
	if o.Shared != nil {
		limits.CPUSet, limits.Offline = cgroup.Bound[cgroup.Set]{}, cgroup.Bound[cgroup.Set]{}
	}
	r := reading{nodesize.Resources{Limits: limits, Online: online, MemTotal: total, Disagreements: notes}}
	r.add(also)
	r.disagree(r.Offline.Bounded(), "%s names the CPUs %s, which are offline: they are not counted", r.Offline.Source, r.Offline.Value)
	if r.CPUSet.Bounded() || r.Paid() == online.Len() {
		r.CPUTopology, err = machine.Topology(online)
	}
	err = errors.Join(err, r.addDisk(machine, o))
	return r.Resources, err
}

// addDisk finds the least size of a disk. slurmctld refuses a node whose TmpFS
// is smaller than the record's TmpDisk, and slurmd, for a TmpFS that is not
// there, says 0.
func (r *reading) addDisk(machine cgroup.FS, o Options) error {
	tmp, err := machine.DiskSize(o.TmpDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("SLURMLET_TMP_DIR: %w", err)
	}
	spool, err := spoolSize(machine, o.SpoolDir)
	if err != nil {
		return fmt.Errorf("SLURMLET_SPOOL_DIR: %w", err)
	}
	r.Disk = cgroup.Bound[int64]{Value: tmp, Source: o.TmpDir}
	if spool < r.Disk.Value {
		r.Disk = cgroup.Bound[int64]{Value: spool, Source: o.SpoolDir}
	}
	if o.StorageLimit > 0 && o.StorageLimit < r.Disk.Value {
		r.Disk = cgroup.Bound[int64]{Value: o.StorageLimit, Source: "SLURMLET_STORAGE_LIMIT"}
	}
	return nil
}

// spoolSize: slurmd makes its spool directory when it is not there yet.
func spoolSize(machine cgroup.FS, dir string) (int64, error) {
	size, err := machine.DiskSize(dir)
	for ; errors.Is(err, fs.ErrNotExist) && dir != "/"; size, err = machine.DiskSize(dir) {
		dir = filepath.Dir(dir)
	}
	return size, err
}

// add takes the downward API's limits in: the tightest wins. Where a container
// has no limit, the downward API gives the node's allocatable amount, so only
// a limit below the cgroup's is worth a word.
func (r *reading) add(also downward) {
	if cpus := float64(also.millicores.Value) / 1000; also.millicores.Bounded() && (!r.Quota.Bounded() || cpus < r.Quota.Value) {
		r.disagree(r.Quota.Bounded(), "%s gives %v CPUs, %s %v", also.millicores.Source, cpus, r.Quota.Source, r.Quota.Value)
		r.Quota = cgroup.Bound[float64]{Value: cpus, Source: also.millicores.Source}
	}
	if also.memory.Bounded() && (!r.Memory.Bounded() || also.memory.Value < r.Memory.Value) {
		r.disagree(r.Memory.Bounded(), "%s gives %d bytes, %s %d", also.memory.Source, also.memory.Value, r.Memory.Source, r.Memory.Value)
		r.Memory = also.memory
	}
}

// downward is the limits that the downward API gives, and where: thousandths of
// a CPU, and bytes.
type downward struct{ millicores, memory cgroup.Bound[int64] }

// downward returns the limits that the environment's variables have.
func (o Options) downward() downward {
	var d downward
	if o.CPULimit > 0 {
		d.millicores = cgroup.Bound[int64]{Value: o.CPULimit, Source: "SLURMLET_CPU_LIMIT"}
	}
	if o.MemoryLimit > 0 {
		d.memory = cgroup.Bound[int64]{Value: o.MemoryLimit, Source: "SLURMLET_MEMORY_LIMIT"}
	}
	return d
}

func (r *reading) disagree(really bool, format string, args ...any) {
	if really {
		r.Disagreements = append(r.Disagreements, fmt.Sprintf(format, args...))
	}
}
