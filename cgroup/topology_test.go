package cgroup

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// built is a machine whose files name the groups of CPUs, separated by spaces:
// "0-3 4-7" in packages is two sockets.
type built struct{ packages, dies, caches, nodes, cores string }

func (m built) files() map[string]string {
	files := map[string]string{}
	for name, groups := range map[string]string{
		"topology/package_cpus_list":   m.packages,
		"topology/die_cpus_list":       m.dies,
		"cache/index3/shared_cpu_list": m.caches,
		"topology/core_cpus_list":      m.cores,
	} {
		for group := range strings.FieldsSeq(groups) {
			set, _ := ParseSet(group)
			for _, cpu := range set.List() {
				files[fmt.Sprintf("sys/devices/system/cpu/cpu%d/%s", cpu, name)] = group + "\n"
			}
		}
	}
	for i, group := range strings.Fields(m.nodes) {
		files[fmt.Sprintf("sys/devices/system/node/node%d/cpulist", i)] = group + "\n"
	}
	return files
}

func TestTopology(t *testing.T) {
	for name, c := range map[string]struct {
		online  string
		machine built
		want    string
	}{
		"one socket, no SMT": {"0-2", built{packages: "0-2", cores: "0 1 2"}, "[[[0],[1],[2]]]"},
		"a guest that has a socket for each CPU": {
			"0-2", built{packages: "0 1 2", cores: "0 1 2"}, "[[[0]],[[1]],[[2]]]",
		},
		"SMT, the siblings far apart": {
			"0-7", built{packages: "0-7", cores: "0,4 1,5 2,6 3,7"}, "[[[0,4],[1,5],[2,6],[3,7]]]",
		},
		"SMT, the siblings side by side": {
			"0-3", built{packages: "0-3", cores: "0-1 2-3"}, "[[[0,1],[2,3]]]",
		},
		"two sockets whose numbers alternate": {
			"0-7", built{packages: "0,2,4,6 1,3,5,7", cores: "0,4 2,6 1,5 3,7"}, "[[[0,4],[2,6]],[[1,5],[3,7]]]",
		},
		"two NUMA nodes in each socket, all of whose numbers alternate": {
			"0-7",
			built{packages: "0,2,4,6 1,3,5,7", nodes: "0,4 1,5 2,6 3,7", cores: "0 1 2 3 4 5 6 7"},
			"[[[0],[4],[2],[6]],[[1],[5],[3],[7]]]",
		},
		"dies and caches in a socket": {
			"0-7",
			built{packages: "0-7", dies: "0-1,4-5 2-3,6-7", caches: "0,4 1,5 2,6 3,7", nodes: "0-7", cores: "0 1 2 3 4 5 6 7"},
			"[[[0],[4],[1],[5],[2],[6],[3],[7]]]",
		},
		"a NUMA node that is wider than a socket": {
			"0-3", built{packages: "0 1 2 3", nodes: "0,2 1,3", cores: "0 1 2 3"}, "[[[0]],[[2]],[[1]],[[3]]]",
		},
		"a CPU that is offline": {
			"0,2-3", built{packages: "0-3", cores: "0,2 1,3"}, "[[[0,2],[3]]]",
		},
		"cores of two kinds": {
			"0-5", built{packages: "0-5", cores: "0-1 2-3 4 5"}, "[[[0,1],[2,3],[4],[5]]]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			have, err := tree(t, c.machine.files()).Topology(set(t, c.online))
			require.NoError(t, err)
			text, err := json.Marshal(have.Packages)
			require.NoError(t, err)
			assert.Equal(t, c.want, string(text))
		})
	}
}

// Before Linux 5.3 the files had other names; some machines have none.
func TestTopologyOfOtherKernels(t *testing.T) {
	old := map[string]string{}
	for name, text := range (built{packages: "0-3", cores: "0,2 1,3"}).files() {
		name = strings.Replace(name, "package_cpus_list", "core_siblings_list", 1)
		old[strings.Replace(name, "core_cpus_list", "thread_siblings_list", 1)] = text
	}
	have, err := tree(t, old).Topology(set(t, "0-3"))
	require.NoError(t, err)
	assert.Equal(t, Topology{[][]Core{{{0, 2}, {1, 3}}}}, have)

	have, err = tree(t, nil).Topology(set(t, "0-3"))
	require.NoError(t, err)
	assert.Empty(t, have.Packages)

	_, err = tree(t, map[string]string{"sys/devices/system/cpu/cpu0/topology/package_cpus_list": "all"}).Topology(set(t, "0-3"))
	require.ErrorContains(t, err, `cpu0/topology/package_cpus_list: cannot use "all": want CPU numbers`)
}

func TestRegular(t *testing.T) {
	for want, machine := range map[string]Topology{
		"2 1 true":  {[][]Core{{{0}, {1}}, {{2}, {3}}}},
		"1 2 true":  {[][]Core{{{0, 1}}, {{2, 3}}}},
		"0 0 false": {},
	} {
		cores, threads, regular := machine.Regular()
		assert.Equal(t, want, fmt.Sprint(cores, threads, regular), "%v", machine)
	}
	for _, machine := range []Topology{{[][]Core{{{0}, {1}}, {{2}}}}, {[][]Core{{{0, 1}}, {{2}}}}, {[][]Core{{{0, 1}, {2}}}}} {
		_, _, regular := machine.Regular()
		assert.False(t, regular, "%v", machine)
	}
	assert.Equal(t, "not known", Topology{}.String())
	assert.Equal(t, "1 × 2 × 2 (sockets, cores, threads)", Topology{[][]Core{{{0, 2}, {1, 3}}}}.String())
	assert.Equal(t, "1 sockets, 2 cores, of different sizes", Topology{[][]Core{{{0, 2}, {1}}}}.String())
}

// FuzzTopology: whatever the files say, each online CPU is in one core.
func FuzzTopology(f *testing.F) {
	f.Add("0-7", "0-3 4-7", "0-1 2-3", "0,2 1,3")
	f.Fuzz(func(t *testing.T, online, packages, nodes, cores string) {
		cpus, err := ParseSet(online)
		if err != nil || cpus.Len() > 64 || len(packages)+len(nodes)+len(cores) > 100 {
			return
		}
		have, err := tree(t, built{packages: packages, nodes: nodes, cores: cores}.files()).Topology(cpus)
		if err != nil || len(have.Packages) == 0 {
			return
		}
		var all []int
		for _, p := range have.Packages {
			for _, c := range p {
				require.NotEmpty(t, c)
				all = append(all, c...)
			}
		}
		require.Len(t, all, cpus.Len())
		require.Equal(t, cpus, SetOf(all...))
	})
}
