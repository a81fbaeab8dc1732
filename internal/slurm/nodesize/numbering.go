package nodesize

import (
	"slices"

	"github.com/slurmlet/slurmlet/cgroup"
)

// noCPU stands where a number of Slurm's names no CPU.
const noCPU = -1

// numbering says which of the machine's CPUs slurmd takes for CPU i of its node
// (CpuSpecList in slurm.conf(5): "abstract" CPU IDs): it counts core by core, as
// hwloc does, and so the siblings of a core come together, which the machine
// may have numbered far apart.
//
// slurmd knows no CPU number from their count on: where CPUs are offline, those
// above cannot be named. Nor can the last CPUs of cores that have more than the
// average. A number that is left over means the machine's CPU of that number.
func numbering(online cgroup.Set, t cgroup.Topology) []int {
	machine := make([]int, online.Len())
	for i := range machine {
		machine[i] = noCPU
	}
	left := online
	name := func(i, cpu int) {
		if i < len(machine) && cpu < len(machine) && left.Has(cpu) {
			machine[i] = cpu
			left = left.Without(cgroup.SetOf(cpu))
		}
	}
	threads := len(machine) / max(1, t.Cores())
	core := 0
	for _, p := range t.Packages {
		for _, c := range p {
			for thread, cpu := range c[:min(len(c), threads)] {
				name(core*threads+thread, cpu)
			}
			core++
		}
	}
	for i := range machine {
		if machine[i] == noCPU {
			name(i, i)
		}
	}
	return machine
}

// complete says whether every number names a CPU.
func complete(machine []int) bool { return !slices.Contains(machine, noCPU) }
