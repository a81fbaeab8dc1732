package nodesize

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/gres"
)

// Size is a node's size as Slurm knows it: what --conf says when the node
// registers (slurmd(8)), and what the record must say afterwards. Two of them
// can be compared.
type Size struct {
	// CPUs counts the reserved ones too; Reserved is CpuSpecList, in Slurm's numbers.
	CPUs     int        `json:"cpus"`
	Reserved cgroup.Set `json:"reserved"`
	// Sockets, Cores (of a socket) and Threads (of a core) are a flat node's
	// CPUs, 1 and 1: each CPU is allocated by itself.
	Sockets int `json:"sockets"`
	Cores   int `json:"cores"`
	Threads int `json:"threads"`
	// RealMemory and TmpDisk are in MiB; TmpDisk 0 is not registered.
	RealMemory int64 `json:"real_memory"`
	TmpDisk    int64 `json:"tmp_disk"`
	// Gres is generic resources in Slurm's words, as in gpu:nvidia_h200:2.
	Gres string `json:"gres"`
}

const mib = 1 << 20

// NewSize sizes the node: with a cpuset the machine's CPUs, those outside
// reserved, because Slurm binds jobs by the machine's CPUs; with a quota alone
// the whole CPUs that it pays for, and at least one. RealMemory is the limit
// without the reserve (bytes), TmpDisk what there is on disk, and neither is
// above the machine's: slurmctld refuses a node with less than its record.
func NewSize(r Resources, reserve int64) (Size, error) {
	memory := r.MemTotal
	source := "/proc/meminfo"
	if r.Memory.Bounded() && r.Memory.Value < memory {
		memory, source = r.Memory.Value, r.Memory.Source
	}
	s := r.cpus()
	s.RealMemory, s.TmpDisk = (memory-reserve)/mib, r.Disk.Value/mib
	if s.RealMemory < 1 {
		return Size{},
			fmt.Errorf(
				"%s: %d bytes leave no memory for jobs: SLURMLET_RESERVE_MEMORY keeps %d bytes for the agent and "+
					"slurmd", source, memory, reserve)
	}
	return s, nil
}

// Paid is how many CPUs there is CPU time for.
func (r Resources) Paid() int {
	n := r.Online.Len()
	if r.Quota.Bounded() && r.Quota.Value < float64(n) {
		n = max(1, int(r.Quota.Value))
	}
	return n
}

// cpus is the part of the size that is about CPUs.
func (r Resources) cpus() Size {
	switch {
	case r.CPUSet.Bounded():
		return r.pinned()
	case r.Paid() < r.Online.Len():
		return flat(r.Paid())
	}
	return r.machine(cgroup.Set{})
}

// flat is a node whose CPUs are nothing to each other.
func flat(cpus int) Size { return Size{CPUs: cpus, Sockets: cpus, Cores: 1, Threads: 1} }

// pinned is the machine with all reserved that the pod may not use. Where
// Slurm has no number for any of the pod's CPUs, only their count is left, and
// jobs must not be bound.
func (r Resources) pinned() Size {
	numbers := numbering(r.Online, r.CPUTopology)
	var own []int
	for i, cpu := range numbers {
		if r.CPUSet.Value.Has(cpu) {
			own = append(own, i)
		}
	}
	if len(own) == 0 {
		return flat(min(r.Paid(), r.CPUSet.Value.Len()))
	}
	own = choose(own, r.Paid())
	var all []int
	for i := range numbers {
		all = append(all, i)
	}
	return r.machine(cgroup.SetOf(all...).Without(cgroup.SetOf(own...)))
}

// choose picks n of the CPUs that a pod may use, by Slurm's numbers: the first,
// so that the siblings of a core stay together. Pods that share a cpuset choose
// the same ones. Somebody who gives the pods of a machine different ones would
// be asked here, and then for a pod with a quota alone, too.
func choose(own []int, n int) []int { return own[:min(n, len(own))] }

// machine is the whole machine with some CPUs reserved: as it is built where
// that can be said in Slurm's words, else flat. Slurm reserves and allocates
// whole cores, so one that is only partly reserved wants a flat node.
func (r Resources) machine(reserved cgroup.Set) Size {
	s := flat(r.Online.Len())
	s.Reserved = reserved
	cores, threads, regular := r.CPUTopology.Regular()
	if regular && complete(numbering(r.Online, r.CPUTopology)) && whole(reserved, threads) {
		s.Sockets, s.Cores, s.Threads = len(r.CPUTopology.Packages), cores, threads
	}
	return s
}

// whole says whether a set of Slurm's numbers is one of whole cores.
func whole(set cgroup.Set, threads int) bool {
	count := map[int]int{}
	for _, i := range set.List() {
		count[i/threads]++
	}
	for _, n := range count {
		if n != threads {
			return false
		}
	}
	return true
}

// Usable is how many CPUs are left for jobs (CPUEfctv).
func (s Size) Usable() int { return s.CPUs - s.Reserved.Len() }

// Conf is the text for slurmd's --conf.
func (s Size) Conf() string { return strings.Join(s.settings(), " ") }

// settings are the parameters of a NodeName line (slurm.conf(5)).
func (s Size) settings() []string {
	conf := []string{fmt.Sprintf("CPUs=%d", s.CPUs)}
	if s.Cores*s.Threads > 1 {
		conf = append(conf, fmt.Sprintf("Boards=1 SocketsPerBoard=%d CoresPerSocket=%d ThreadsPerCore=%d", s.Sockets, s.Cores, s.Threads))
	}
	conf = append(conf, fmt.Sprintf("RealMemory=%d", s.RealMemory))
	if s.TmpDisk > 0 {
		conf = append(conf, fmt.Sprintf("TmpDisk=%d", s.TmpDisk))
	}
	if s.Reserved.Len() > 0 {
		conf = append(conf, "CpuSpecList="+s.Reserved.String())
	}
	if s.Gres != "" {
		conf = append(conf, "Gres="+s.Gres)
	}
	return conf
}

// Lacks names the fields in which a node record has more than this size, so that slurmctld would give
// jobs what is not there.
func (s Size) Lacks(n *slurm.Node) string {
	var fields []string
	lack := func(is bool, field string, want, have any) {
		if is {
			fields = append(fields, fmt.Sprintf("%s is %v, not %v", field, have, want))
		}
	}
	recorded := recordedGres(s.Gres, n)
	lack(n.CPUsEffective > s.Usable(), "CPUEfctv", s.Usable(), n.CPUsEffective)
	lack(n.RealMemory > s.RealMemory, "RealMemory", s.RealMemory, n.RealMemory)
	lack(n.TmpDisk > s.TmpDisk, "TmpDisk", s.TmpDisk, n.TmpDisk)
	lack(recorded != "" && recorded != s.Gres, "Gres", cmp.Or(s.Gres, "none"), recorded)
	return strings.Join(fields, ", ")
}

// Diff names the fields in which a node record is not of this size, empty for none.
func (s Size) Diff(n *slurm.Node) string {
	var fields []string
	differ := func(field string, want, have any) {
		if want != have {
			fields = append(fields, fmt.Sprintf("%s is %v, not %v", field, have, want))
		}
	}
	d := n.Detail()
	differ("CPUTot", s.CPUs, n.CPUs)
	differ("CPUEfctv", s.Usable(), n.CPUsEffective)
	differ("CPUSpecList", s.Reserved.String(), string(d.SpecializedCPUs))
	differ("Sockets", s.Sockets, d.Sockets)
	differ("CoresPerSocket", s.Cores, d.Cores)
	differ("ThreadsPerCore", s.Threads, d.Threads)
	differ("RealMemory", s.RealMemory, n.RealMemory)
	differ("TmpDisk", s.TmpDisk, n.TmpDisk)
	differ("Gres", cmp.Or(s.Gres, "none"), cmp.Or(recordedGres(s.Gres, n), "none"))
	return strings.Join(fields, ", ")
}

// recordedGres is what a record has in the place of what was registered: the
// same, where only what Slurm adds to it is different.
func recordedGres(registered string, n *slurm.Node) string {
	if gres.Recorded(registered).Differs(gres.Recorded(n.Gres), n.Detail().GresTypes) {
		return n.Gres
	}
	return registered
}
