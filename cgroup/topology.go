package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Topology is how the machine's online CPUs are built together: packages
// (sockets), cores in them, CPUs (hardware threads) in those. The order is that
// of hwloc's logical numbers, which is Slurm's: what lies together comes
// together, and the least CPU number first. The zero value is a machine that
// does not say.
type Topology struct {
	Packages [][]Core `json:"packages"`
}

// Core is the numbers of a core's CPUs.
type Core []int

const cpus = "/sys/devices/system/cpu"

// Topology reads how the CPUs of online are built together
// (Documentation/ABI/stable/sysfs-devices-system-cpu in the kernel's sources).
func (f FS) Topology(online Set) (Topology, error) {
	b := builder{fs: f, online: online}
	packages := b.level("topology/package_cpus_list", "topology/core_siblings_list")
	cores := b.level("topology/core_cpus_list", "topology/thread_siblings_list")
	levels := [][]Set{packages, b.level("topology/die_cpus_list"), b.level("cache/index3/shared_cpu_list"), b.nodes(), cores}
	if b.err != nil || packages == nil || cores == nil {
		return Topology{}, b.err
	}
	return arrange(online, packages, cores, levels), nil
}

// builder reads groups of CPUs and keeps the first error.
type builder struct {
	fs     FS
	online Set
	err    error
}

// level reads one file of each group and not of each CPU: a machine with
// hundreds of them is read in a millisecond. It is nil where no file of these
// names is there.
func (b *builder) level(names ...string) []Set {
	var groups []Set
	for left := b.online; left.Len() > 0 && b.err == nil; {
		cpu := left.first()
		group, found := b.group(cpu, names)
		if !found {
			return nil
		}
		group = group.Intersect(b.online)
		group.add(cpu)
		groups = append(groups, group)
		left = left.Without(group)
	}
	return groups
}

func (b *builder) group(cpu int, names []string) (Set, bool) {
	for _, name := range names {
		if set, found := b.read(fmt.Sprintf("%s/cpu%d/%s", cpus, cpu, name)); found || b.err != nil {
			return set, found
		}
	}
	return Set{}, false
}

// nodes reads the NUMA nodes' CPUs.
func (b *builder) nodes() []Set {
	var groups []Set
	names, _ := filepath.Glob(filepath.Join(b.fs.root, "sys/devices/system/node/node[0-9]*"))
	for _, name := range names {
		set, found := b.read(path.Join("/sys/devices/system/node", filepath.Base(name), "cpulist"))
		if set = set.Intersect(b.online); found && set.Len() > 0 {
			groups = append(groups, set)
		}
	}
	return groups
}

func (b *builder) read(name string) (Set, bool) {
	text, err := os.ReadFile(filepath.Join(b.fs.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return Set{}, false
	}
	if err != nil {
		b.err = fmt.Errorf("cannot read %s: %w", name, err)
		return Set{}, false
	}
	set, err := ParseSet(strings.TrimSpace(string(text)))
	if err != nil {
		b.err = fmt.Errorf("%s: cannot use %q: %w", name, strings.TrimSpace(string(text)), err)
	}
	return set, err == nil
}

// arrange sorts the CPUs so that those of a group come together, the wider
// groups first: the numbers of two NUMA nodes may alternate within a package.
func arrange(online Set, packages, cores []Set, levels [][]Set) Topology {
	slices.SortStableFunc(levels, func(a, b []Set) int { return cmp.Compare(widest(b), widest(a)) })
	order := online.List()
	keys := map[int][]int{}
	for _, cpu := range order {
		for _, groups := range levels {
			keys[cpu] = append(keys[cpu], leader(groups, cpu))
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(keys[a], keys[b]) })

	var t Topology
	core, pack := -1, -1
	for _, cpu := range order {
		if p := leader(packages, cpu); p != pack {
			t.Packages, pack, core = append(t.Packages, nil), p, -1
		}
		last := &t.Packages[len(t.Packages)-1]
		if c := leader(cores, cpu); c != core {
			*last, core = append(*last, nil), c
		}
		(*last)[len(*last)-1] = append((*last)[len(*last)-1], cpu)
	}
	return t
}

func widest(groups []Set) int {
	n := 0
	for i := range groups {
		n = max(n, groups[i].Len())
	}
	return n
}

// leader is the least CPU of the group that holds cpu: it names the group, and
// gives it its place.
func leader(groups []Set, cpu int) int {
	for i := range groups {
		if groups[i].Has(cpu) {
			return groups[i].first()
		}
	}
	return maxCPU + 1
}

// Cores counts the cores of all packages.
func (t Topology) Cores() int {
	n := 0
	for _, p := range t.Packages {
		n += len(p)
	}
	return n
}

// Regular says whether every package has the same number of cores and every
// core the same number of CPUs, and returns these numbers.
func (t Topology) Regular() (cores, threads int, regular bool) {
	for _, p := range t.Packages {
		for _, c := range p {
			if cores == 0 {
				cores, threads = len(p), len(c)
			}
			if len(p) != cores || len(c) != threads {
				return 0, 0, false
			}
		}
	}
	return cores, threads, cores > 0
}

func (t Topology) String() string {
	cores, threads, regular := t.Regular()
	switch {
	case len(t.Packages) == 0:
		return "not known"
	case !regular:
		return fmt.Sprintf("%d sockets, %d cores, of different sizes", len(t.Packages), t.Cores())
	}
	return fmt.Sprintf("%d × %d × %d (sockets, cores, threads)", len(t.Packages), cores, threads)
}
