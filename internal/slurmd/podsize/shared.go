package podsize

import (
	"fmt"

	"github.com/slurmlet/slurmlet/cgroup"
)

// Shared is what the other pods have of a machine on which Slurm's jobs and Kubernetes' pods take turns. The node has the rest of
// what the machine can give to pods, which the downward API has as the limits of a container without any. The kubelet's CPU
// manager changes the cpuset of such a container as other pods come and go, and so the cpuset does not count.
type Shared struct {
	// CPU is in thousandths, Memory in bytes.
	CPU, Memory int64
}

// without takes the other pods' part from what the machine can give.
func (s *Shared) without(all downward) (downward, error) {
	if s == nil {
		return all, nil
	}
	cpus, memory := all.millicores.Value-s.CPU, all.memory.Value-s.Memory
	if cpus < 1000 {
		return downward{}, fmt.Errorf("%s: %d thousandths of a CPU leave no CPU for jobs: SLURMLET_OTHERS_CPU keeps %d for the machine's other pods",
			all.millicores.Source, all.millicores.Value, s.CPU)
	}
	if memory < mib {
		return downward{}, fmt.Errorf("%s: %d bytes leave no memory for jobs: SLURMLET_OTHERS_MEMORY keeps %d for the machine's other pods",
			all.memory.Source, all.memory.Value, s.Memory)
	}
	return downward{
		cgroup.Bound[int64]{Value: cpus, Source: all.millicores.Source + " less SLURMLET_OTHERS_CPU"},
		cgroup.Bound[int64]{Value: memory, Source: all.memory.Source + " less SLURMLET_OTHERS_MEMORY"},
	}, nil
}
