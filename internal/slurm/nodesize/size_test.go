package nodesize

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// machines by what they are; a core is the numbers of its CPUs.
var (
	plain = cgroup.Topology{Packages: [][]cgroup.Core{{{0}, {1}, {2}, {3}}}}
	// smt: two sockets, siblings numbered i and i+4.
	smt = cgroup.Topology{Packages: [][]cgroup.Core{{{0, 4}, {1, 5}}, {{2, 6}, {3, 7}}}}
	// alternating: two sockets whose numbers alternate, and siblings at i and i+4.
	alternating = cgroup.Topology{Packages: [][]cgroup.Core{{{0, 4}, {2, 6}}, {{1, 5}, {3, 7}}}}
	// hybrid: two cores with two threads, two with one.
	hybrid = cgroup.Topology{Packages: [][]cgroup.Core{{{0, 1}, {2, 3}, {4}, {5}}}}
	// holed: CPU 1 is offline.
	holed = cgroup.Topology{Packages: [][]cgroup.Core{{{0}, {2}, {3}}}}
	// lopsided: CPU 1, a sibling of 3, is offline.
	lopsided = cgroup.Topology{Packages: [][]cgroup.Core{{{0, 2}, {3}}}}
	// guest: a socket for each CPU.
	guest = cgroup.Topology{Packages: [][]cgroup.Core{{{0}}, {{1}}, {{2}}}}
	// unknown: sysfs does not tell.
	unknown = cgroup.Topology{}
)

func cpuSet(t testing.TB, text string) cgroup.Set {
	t.Helper()
	set, err := cgroup.ParseSet(text)
	require.NoError(t, err)
	return set
}

// given is a pod with a quota (0: none) and a cpuset ("": none) on a machine of 4 GiB.
func given(t testing.TB, online string, machine cgroup.Topology, quota float64, own string) Resources {
	t.Helper()
	r := Resources{Online: cpuSet(t, online), MemTotal: 4 << 30, CPUTopology: machine}
	if quota > 0 {
		r.Quota = cgroup.Bound[float64]{Value: quota, Source: "cpu.max"}
	}
	if own != "" {
		r.CPUSet = cgroup.Bound[cgroup.Set]{Value: cpuSet(t, own), Source: "cpuset.cpus.effective"}
	}
	return r
}

func TestSizeOfCPUs(t *testing.T) {
	for name, c := range map[string]struct {
		online  string
		machine cgroup.Topology
		quota   float64
		own     string
		want    string
		usable  int
	}{
		"no limit":                       {"0-3", plain, 0, "", "CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1", 4},
		"no limit, SMT":                  {"0-7", smt, 0, "", "CPUs=8 Boards=1 SocketsPerBoard=2 CoresPerSocket=2 ThreadsPerCore=2", 8},
		"no limit, a guest":              {"0-2", guest, 0, "", "CPUs=3", 3},
		"no limit, cores of two kinds":   {"0-5", hybrid, 0, "", "CPUs=6", 6},
		"no limit, a CPU offline":        {"0,2-3", holed, 0, "", "CPUs=3", 3},
		"no limit, nothing known":        {"0-3", unknown, 0, "", "CPUs=4", 4},
		"a quota of half a CPU":          {"0-7", smt, 0.5, "", "CPUs=1", 1},
		"a quota of one and a half":      {"0-7", smt, 1.5, "", "CPUs=1", 1},
		"a quota of just under two":      {"0-7", smt, 1.999, "", "CPUs=1", 1},
		"a quota of two":                 {"0-7", smt, 2, "", "CPUs=2", 2},
		"a quota of all CPUs":            {"0-7", smt, 8, "", "CPUs=8 Boards=1 SocketsPerBoard=2 CoresPerSocket=2 ThreadsPerCore=2", 8},
		"a quota of more than there are": {"0-3", plain, 64, "", "CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1", 4},
		"a quota beyond all bounds":      {"0-2", guest, 1e300, "", "CPUs=3", 3},

		"pinned to one CPU": {"0-2", guest, 0, "1", "CPUs=3 CpuSpecList=0,2", 1},
		"pinned on a machine that does not tell how it is built": {"0-3", unknown, 0, "1-2", "CPUs=4 CpuSpecList=0,3", 2},
		"pinned to two cores": {"0-3", plain, 0, "1-2", "CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 CpuSpecList=0,3", 2},
		// Slurm's CPUs 2 and 3 are the machine's 1 and 5.
		"SMT, pinned to a core":                      {"0-7", smt, 0, "1,5", "CPUs=8 Boards=1 SocketsPerBoard=2 CoresPerSocket=2 ThreadsPerCore=2 CpuSpecList=0-1,4-7", 2},
		"SMT, pinned to a socket":                    {"0-7", smt, 0, "2-3,6-7", "CPUs=8 Boards=1 SocketsPerBoard=2 CoresPerSocket=2 ThreadsPerCore=2 CpuSpecList=0-3", 4},
		"SMT, pinned to one thread":                  {"0-7", smt, 0, "5", "CPUs=8 CpuSpecList=0-2,4-7", 1},
		"SMT, pinned to a core and a half":           {"0-7", smt, 0, "0,4-5", "CPUs=8 CpuSpecList=2,4-7", 3},
		"SMT, pinned to a thread of each core":       {"0-7", smt, 0, "0-3", "CPUs=8 CpuSpecList=1,3,5,7", 4},
		"alternating sockets, pinned to the second":  {"0-7", alternating, 0, "1,3,5,7", "CPUs=8 Boards=1 SocketsPerBoard=2 CoresPerSocket=2 ThreadsPerCore=2 CpuSpecList=0-3", 4},
		"alternating sockets, pinned to a core each": {"0-7", alternating, 0, "0-1,4-5", "CPUs=8 Boards=1 SocketsPerBoard=2 CoresPerSocket=2 ThreadsPerCore=2 CpuSpecList=2-3,6-7", 4},

		"pinned, and a tighter quota":               {"0-3", plain, 1.5, "1-2", "CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 CpuSpecList=0,2-3", 1},
		"SMT, pinned, and a quota of a core":        {"0-7", smt, 2, "1-2,5-6", "CPUs=8 Boards=1 SocketsPerBoard=2 CoresPerSocket=2 ThreadsPerCore=2 CpuSpecList=0-1,4-7", 2},
		"SMT, pinned, and a quota of three":         {"0-7", smt, 3, "1-2,5-6", "CPUs=8 CpuSpecList=0-1,5-7", 3},
		"pinned, and a quota that binds nothing":    {"0-2", guest, 3, "0-1", "CPUs=3 CpuSpecList=2", 2},
		"pinned, and a quota of less than one":      {"0-2", guest, 0.2, "0-1", "CPUs=3 CpuSpecList=1-2", 1},
		"cores of two kinds, pinned to a slow":      {"0-5", hybrid, 0, "4", "CPUs=6 CpuSpecList=0-1,3-5", 1},
		"cores of two kinds, one without number":    {"0-5", hybrid, 0, "0-1", "CPUs=6 CpuSpecList=1-5", 1},
		"a CPU offline, pinned below the count":     {"0,2-3", holed, 0, "2", "CPUs=3 CpuSpecList=0,2", 1},
		"a CPU offline, pinned above the count":     {"0,2-3", holed, 0, "3", "CPUs=1", 1},
		"a CPU offline, pinned below and above":     {"0,2-3", holed, 0, "2-3", "CPUs=3 CpuSpecList=0,2", 1},
		"a sibling offline, pinned to its core":     {"0,2-3", lopsided, 0, "3", "CPUs=1", 1},
		"a sibling offline, pinned to a whole core": {"0,2-3", lopsided, 0, "0,2", "CPUs=3 CpuSpecList=1", 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewSize(given(t, c.online, c.machine, c.quota, c.own), 96*mib)
			require.NoError(t, err)
			assert.Equal(t, c.want, strings.Replace(s.Conf(), " RealMemory=4000", "", 1))
			assert.Equal(t, c.usable, s.Usable())
			assert.Equal(t, s.CPUs, s.Sockets*s.Cores*s.Threads)
		})
	}
}

func TestSizeOfMemoryAndDisk(t *testing.T) {
	for name, c := range map[string]struct {
		limit, reserve, disk int64
		want                 string
	}{
		"no limit":                        {0, 0, 0, "RealMemory=4096"},
		"no limit, and a reserve":         {0, 64 * mib, 0, "RealMemory=4032"},
		"a limit":                         {512 * mib, 64 * mib, 0, "RealMemory=448"},
		"a limit above the machine's":     {1 << 60, 64 * mib, 0, "RealMemory=4032"},
		"a limit that is no whole MiB":    {100*mib + 1, 0, 0, "RealMemory=100"},
		"the least that there can be":     {65 * mib, 64 * mib, 0, "RealMemory=1"},
		"a disk":                          {65 * mib, 64 * mib, 9*mib - 1, "RealMemory=1 TmpDisk=8"},
		"a disk too small for one of MiB": {65 * mib, 64 * mib, mib - 1, "RealMemory=1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := given(t, "0", unknown, 0, "")
			r.Disk.Value = c.disk
			if c.limit > 0 {
				r.Memory = cgroup.Bound[int64]{Value: c.limit, Source: "memory.max"}
			}
			s, err := NewSize(r, c.reserve)
			require.NoError(t, err)
			assert.Equal(t, "CPUs=1 "+c.want, s.Conf())
		})
	}
}

func TestSizeWithoutMemory(t *testing.T) {
	r := given(t, "0", unknown, 0, "")
	r.Memory = cgroup.Bound[int64]{Value: mib, Source: "/sys/fs/cgroup/memory.max"}
	_, err := NewSize(r, 64*mib)
	require.EqualError(t, err, "/sys/fs/cgroup/memory.max: 1048576 bytes leave no memory for jobs: "+
		"SLURMLET_RESERVE_MEMORY keeps 67108864 bytes for the agent and slurmd")
}

func TestDiff(t *testing.T) {
	s := Size{CPUs: 8, Reserved: cpuSet(t, "0-3"), Sockets: 2, Cores: 2, Threads: 2, RealMemory: 448, TmpDisk: 100}
	same := slurm.Node{
		CPUs: 8, CPUsEffective: 4, RealMemory: 448, TmpDisk: 100,
		NodeDetail: &slurm.NodeDetail{SpecializedCPUs: "0-3", Sockets: 2, Cores: 2, Threads: 2},
	}
	assert.Empty(t, s.Diff(&same))
	for want, change := range map[string]func(n *slurm.Node){
		"CPUTot is 4, not 8":          func(n *slurm.Node) { n.CPUs = 4 },
		"CPUEfctv is 8, not 4":        func(n *slurm.Node) { n.CPUsEffective = 8 },
		"CPUSpecList is 4-7, not 0-3": func(n *slurm.Node) { n.SpecializedCPUs = "4-7" },
		"CPUSpecList is , not 0-3":    func(n *slurm.Node) { n.SpecializedCPUs = "" },
		"Sockets is 1, not 2":         func(n *slurm.Node) { n.Sockets = 1 },
		"CoresPerSocket is 4, not 2":  func(n *slurm.Node) { n.Cores = 4 },
		"ThreadsPerCore is 1, not 2":  func(n *slurm.Node) { n.Threads = 1 },
		"RealMemory is 512, not 448":  func(n *slurm.Node) { n.RealMemory = 512 },
		"TmpDisk is 0, not 100":       func(n *slurm.Node) { n.TmpDisk = 0 },
		"Sockets is 8, not 2, CoresPerSocket is 1, not 2, ThreadsPerCore is 1, not 2": func(n *slurm.Node) { n.Sockets, n.Cores, n.Threads = 8, 1, 1 },
	} {
		other, detail := same, *same.NodeDetail
		other.NodeDetail = &detail
		change(&other)
		assert.Equal(t, want, s.Diff(&other))
	}
}

// TestLacks: only what a record has more than the pod is lacking.
func TestLacks(t *testing.T) {
	s := Size{CPUs: 4, Sockets: 4, Cores: 1, Threads: 1, RealMemory: 448, TmpDisk: 100, Gres: "gpu:2"}
	for want, n := range map[string]slurm.Node{
		"": {CPUs: 2, CPUsEffective: 2, RealMemory: 300, Gres: "gpu:2", NodeDetail: &slurm.NodeDetail{Sockets: 1, Cores: 2, Threads: 1}},
		"CPUEfctv is 8, not 4, RealMemory is 512, not 448, TmpDisk is 200, not 100": {CPUsEffective: 8, RealMemory: 512, TmpDisk: 200, Gres: "gpu:2"},
		"Gres is gpu:4, not gpu:2": {CPUsEffective: 4, Gres: "gpu:4"},
	} {
		assert.Equal(t, want, s.Lacks(&n))
	}
	s.Gres = ""
	assert.Empty(t, s.Lacks(&slurm.Node{}))
	assert.Equal(t, "Gres is gpu:1, not none", s.Lacks(&slurm.Node{Gres: "gpu:1"}))
}

// FuzzSize: a node never has more than its pod was given, and never nothing;
// the numbers of its CPUs are the pod's.
func FuzzSize(f *testing.F) {
	f.Add("0-7", uint8(2), uint8(2), true, 1.5, "1,5", int64(512*mib), int64(64*mib), int64(mib))
	f.Add("0,2-3", uint8(1), uint8(1), false, 0.0, "3", int64(0), int64(0), int64(0))
	f.Add("0-63", uint8(8), uint8(1), true, 64.0, "", int64(1)<<62, int64(0), int64(1)<<62)
	f.Fuzz(func(t *testing.T, online string, cores, threads uint8, far bool, quota float64, own string, memory, reserve, disk int64) {
		cpus, err := cgroup.ParseSet(online)
		set, ownErr := cgroup.ParseSet(own)
		if err != nil || ownErr != nil || cpus.Len() == 0 || cpus.Len() > 256 || quota != quota || memory < 0 || reserve < 0 || disk < 0 {
			return
		}
		r := given(t, online, anyMachine(cpus, int(cores), int(threads), far), quota, "")
		r.Disk.Value = disk
		if set = set.Intersect(cpus); set.Len() > 0 && set != cpus {
			r.CPUSet = cgroup.Bound[cgroup.Set]{Value: set, Source: "cpuset"}
		}
		if memory > 0 {
			r.Memory = cgroup.Bound[int64]{Value: memory, Source: "memory.max"}
		}
		s, err := NewSize(r, reserve)
		if err != nil {
			have := r.MemTotal
			if memory > 0 {
				have = min(have, memory)
			}
			require.Less(t, have-reserve, int64(mib))
			return
		}
		checkSize(t, r, s)
	})
}

func checkSize(t *testing.T, r Resources, s Size) {
	t.Helper()
	require.GreaterOrEqual(t, s.Usable(), 1)
	require.LessOrEqual(t, s.Usable(), r.Online.Len())
	require.LessOrEqual(t, s.CPUs, r.Online.Len())
	require.Equal(t, s.CPUs, s.Sockets*s.Cores*s.Threads)
	require.GreaterOrEqual(t, s.RealMemory, int64(1))
	require.LessOrEqual(t, s.RealMemory*mib, r.MemTotal)
	require.LessOrEqual(t, s.TmpDisk*mib, r.Disk.Value)
	if r.Quota.Bounded() {
		require.LessOrEqual(t, float64(s.Usable()), max(1, r.Quota.Value))
	}
	if r.Memory.Bounded() {
		require.LessOrEqual(t, s.RealMemory*mib, r.Memory.Value)
	}
	if !r.CPUSet.Bounded() {
		return
	}
	require.LessOrEqual(t, s.Usable(), r.CPUSet.Value.Len())
	for i, cpu := range numbering(r.Online, r.CPUTopology) {
		if s.Reserved.Len() > 0 && !s.Reserved.Has(i) {
			require.True(t, r.CPUSet.Value.Has(cpu), "%d is the machine's %d", i, cpu)
		}
	}
}

// anyMachine builds the CPUs together, a rest in smaller cores and sockets.
func anyMachine(cpus cgroup.Set, cores, threads int, far bool) cgroup.Topology {
	var t cgroup.Topology
	if cores == 0 || threads == 0 {
		return t
	}
	var all []cgroup.Core
	list := cpus.List()
	if far {
		n := (len(list) + threads - 1) / threads
		for i := range n {
			var c cgroup.Core
			for k := i; k < len(list); k += n {
				c = append(c, list[k])
			}
			all = append(all, c)
		}
	} else {
		for c := range slices.Chunk(list, threads) {
			all = append(all, c)
		}
	}
	for p := range slices.Chunk(all, cores) {
		t.Packages = append(t.Packages, p)
	}
	return t
}

func TestSize(t *testing.T) {
	eight := cpuSet(t, "0-7")
	limited := func(quota float64, set string, memory int64) Resources {
		r := Resources{Online: eight, MemTotal: 16 << 30}
		if quota > 0 {
			r.Quota = cgroup.Bound[float64]{Value: quota, Source: "cpu.max"}
		}
		if set != "" {
			r.CPUSet = cgroup.Bound[cgroup.Set]{Value: cpuSet(t, set), Source: "cpuset.cpus.effective"}
		}
		if memory > 0 {
			r.Memory = cgroup.Bound[int64]{Value: memory, Source: "memory.max"}
		}
		return r
	}
	for name, c := range map[string]struct {
		given Resources
		conf  string
	}{
		"no limit":                  {limited(0, "", 0), "CPUs=8 RealMemory=16320"},
		"half a CPU":                {limited(0.5, "", 512<<20), "CPUs=1 RealMemory=448"},
		"one and a half":            {limited(1.5, "", 512<<20), "CPUs=1 RealMemory=448"},
		"two":                       {limited(2, "", 1<<30), "CPUs=2 RealMemory=960"},
		"more than there are":       {limited(64, "", 1<<30), "CPUs=8 RealMemory=960"},
		"pinned":                    {limited(0, "2-3", 1<<30), "CPUs=8 RealMemory=960 CpuSpecList=0-1,4-7"},
		"pinned, and a quota":       {limited(1, "2-3", 1<<30), "CPUs=8 RealMemory=960 CpuSpecList=0-1,3-7"},
		"more memory than there is": {limited(1, "", 1<<40), "CPUs=1 RealMemory=16320"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewSize(c.given, 64<<20)
			require.NoError(t, err)
			require.Equal(t, c.conf, s.Conf())
		})
	}
	_, err := NewSize(limited(1, "", 1<<20), 64<<20)
	require.EqualError(t, err, "memory.max: 1048576 bytes leave no memory for jobs: SLURMLET_RESERVE_MEMORY keeps 67108864 bytes for the agent and slurmd")
}

// recorded is the record of a node with one CPU.
func recorded(gres string, types ...string) *slurm.Node {
	return &slurm.Node{CPUs: 1, CPUsEffective: 1, RealMemory: 448, Gres: gres, NodeDetail: &slurm.NodeDetail{GresTypes: types}}
}

// A cluster that does not know what was registered is told of; the record fits all the same.
func TestUnknownGres(t *testing.T) {
	s := Size{CPUs: 1, RealMemory: 448, Gres: "gpu:h200:2"}
	assert.Equal(t, "CPUs=1 RealMemory=448 Gres=gpu:h200:2", s.Conf())
	for _, c := range []struct {
		gres  string
		types []string
		want  string
	}{
		{"gpu:h200:2(S:0-1)", nil, ""},
		{"gpu:h200:1", nil, "Gres is gpu:h200:1, not gpu:h200:2"},
		{"", nil, "Gres is none, not gpu:h200:2"},
		{"", []string{"gpu"}, "Gres is none, not gpu:h200:2"},
		{"", []string{""}, ""},
		{"", []string{"shmem"}, ""},
	} {
		n := recorded(c.gres, c.types...)
		assert.Equal(t, c.want, s.Diff(n), "%+v", c)
	}
	assert.Equal(t, "Gres is gpu:1, not none", Size{CPUs: 1, RealMemory: 448}.Diff(recorded("gpu:1")), "an earlier pod's GPU")
}
