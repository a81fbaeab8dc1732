package agent

import (
	"fmt"
	"strings"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Shape is a node's size as Slurm knows it: what --conf says when the node
// registers (slurmd(8)), and what the record must say afterwards.
type Shape struct {
	// CPUs counts the reserved ones too; Reserved is CpuSpecList.
	CPUs     int        `json:"cpus"`
	Reserved cgroup.Set `json:"reserved"`
	// RealMemory is in MiB.
	RealMemory int64 `json:"real_memory"`
}

const mib = 1 << 20

// NewShape sizes the node: with a cpuset the machine's CPUs, those outside
// reserved, because Slurm's CPU i is the machine's CPU i; with a quota alone
// the whole CPUs that it pays for. RealMemory is the limit without the reserve
// (bytes), and never above the machine's: slurmctld refuses a node with less
// memory than its record.
func NewShape(r Resources, reserve int64) (Shape, error) {
	memory := r.MemTotal
	source := "/proc/meminfo"
	if r.Memory.Bounded() && r.Memory.Value < memory {
		memory, source = r.Memory.Value, r.Memory.Source
	}
	s := Shape{RealMemory: (memory - reserve) / mib}
	if s.RealMemory < 1 {
		return Shape{}, fmt.Errorf("%s: %d bytes leave no memory for jobs: SLURMLET_RESERVE_MEMORY keeps %d bytes for the agent and slurmd", source, memory, reserve)
	}
	s.CPUs, s.Reserved = cpus(r)
	return s, nil
}

func cpus(r Resources) (int, cgroup.Set) {
	paid := r.Online.Len()
	if r.Quota.Bounded() {
		paid = max(1, min(paid, int(r.Quota.Value)))
	}
	if !r.CPUSet.Bounded() {
		return paid, cgroup.Set{}
	}
	return r.Online.Len(), r.Online.Without(r.CPUSet.Value.First(paid))
}

// Conf is the text for slurmd's --conf.
func (s Shape) Conf() string {
	conf := fmt.Sprintf("CPUs=%d RealMemory=%d", s.CPUs, s.RealMemory)
	if s.Reserved.Len() > 0 {
		conf += " CpuSpecList=" + s.Reserved.String()
	}
	return conf
}

// differences names the fields in which a node record is not of this shape.
func (s Shape) differences(n *slurm.Node) string {
	var fields []string
	differ := func(field string, want, have any) {
		if want != have {
			fields = append(fields, fmt.Sprintf("%s is %v, not %v", field, have, want))
		}
	}
	differ("CPUTot", s.CPUs, n.CPUs)
	differ("CPUEfctv", s.CPUs-s.Reserved.Len(), n.EffectiveCPUs)
	differ("CPUSpecList", s.Reserved.String(), n.SpecializedCPUs.String())
	differ("RealMemory", s.RealMemory, n.RealMemory)
	return strings.Join(fields, ", ")
}
