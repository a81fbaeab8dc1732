package podsize

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/cgroup"
)

// machineOf are the options of a container without limits on a machine that can give 3.5 CPUs and 3 GiB to pods.
func machineOf(others Shared) Options {
	o := defaults
	o.CPULimit, o.MemoryLimit, o.Reserve, o.Shared, o.PodInfo = 3500, 3<<30, 64*mib, &others, "/etc/podinfo"
	return o
}

func TestSharedMachine(t *testing.T) {
	for name, c := range map[string]struct {
		files       map[string]string
		others      Shared
		cpus        int
		memory      int64
		reserved    int
		disagreeing int
	}{
		"all that the machine can give":       {cpus: 3, memory: 3072 - 64},
		"less what the other pods have":       {others: Shared{CPU: 1000, Memory: 1 << 30}, cpus: 2, memory: 2048 - 64},
		"a fraction of a CPU is for nobody":   {others: Shared{CPU: 600}, cpus: 2, memory: 3072 - 64},
		"the kubelet has taken CPUs away":     {map[string]string{"sys/fs/cgroup/cpuset.cpus.effective": "2-3\n"}, Shared{CPU: 500}, 3, 3072 - 64, 0, 0},
		"somebody has given the pod a limit":  {map[string]string{"sys/fs/cgroup/memory.max": "1073741824\n"}, Shared{CPU: 500}, 3, 1024 - 64, 0, 0},
		"one whose limit is above its share":  {map[string]string{"sys/fs/cgroup/memory.max": "3221225472\n"}, Shared{Memory: 1 << 30}, 3, 2048 - 64, 0, 1},
		"a cgroup of a machine without limit": {map[string]string{"sys/fs/cgroup/cpu.max": "max 100000\n", "sys/fs/cgroup/memory.max": "max\n"}, Shared{CPU: 500}, 3, 3072 - 64, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := Measure(machineTree(t, c.files), machineOf(c.others))
			require.NoError(t, err)
			assert.Equal(t, c.cpus, a.Size.CPUs)
			assert.Equal(t, c.reserved, a.Size.Reserved.Len())
			assert.Equal(t, c.memory, a.Size.RealMemory)
			assert.Len(t, a.Resources.Disagreements, c.disagreeing)
		})
	}
}

// TestSharedMachineStays: the kubelet's CPU manager resizes the cpuset while pods come and go, and the node stays as it is.
func TestSharedMachineStays(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for name, text := range map[string]string{
		"proc/meminfo": "MemTotal: 4194304 kB\n", "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.controllers": "cpuset\n",
		"sys/devices/system/cpu/online": "0-3\n", "tmp/file": "", "var/file": "",
	} {
		write(name, text)
	}
	machine, o := cgroup.NewFS(root), machineOf(Shared{CPU: 1000})
	limits, err := machine.Limits()
	require.NoError(t, err)
	o.AtStart = &limits
	first, err := Measure(machine, o)
	require.NoError(t, err)
	for _, set := range []string{"1-3", "3", "0-3"} {
		write("sys/fs/cgroup/cpuset.cpus.effective", set+"\n")
		again, err := Measure(machine, o)
		require.NoError(t, err)
		assert.Equal(t, first.Size, again.Size, set)
	}
}

func TestSharedMachineIsTooSmall(t *testing.T) {
	for want, others := range map[string]Shared{
		"SLURMLET_CPU_LIMIT: 3500 thousandths of a CPU leave no CPU for jobs: SLURMLET_OTHERS_CPU keeps 3000 for the machine's other pods":                                 {CPU: 3000},
		"SLURMLET_MEMORY_LIMIT: 3221225472 bytes leave no memory for jobs: SLURMLET_OTHERS_MEMORY keeps 3221225472 for the machine's other pods":                           {Memory: 3 << 30},
		"SLURMLET_MEMORY_LIMIT less SLURMLET_OTHERS_MEMORY: 2097152 bytes leave no memory for jobs: SLURMLET_RESERVE_MEMORY keeps 67108864 bytes for the agent and slurmd": {Memory: 3<<30 - 2*mib},
	} {
		_, err := Measure(machineTree(t, nil), machineOf(others))
		require.EqualError(t, err, want)
	}
}

func TestSharedMachineBindsNobody(t *testing.T) {
	a, err := Measure(machineTree(t, nil), machineOf(Shared{CPU: 500}))
	require.NoError(t, err)
	pod := podOf(a.Size, a.Resources, all...)
	pod.Shared = true
	assert.Empty(t, Mismatches(pod, cluster(t, "26.05", "ConstrainCores=no")))
	have := Mismatches(pod, cluster(t, "26.05", "ConstrainCores=yes"))
	require.Len(t, have, 1)
	assert.Contains(t, have[0].Why+have[0].Instead, "no (cgroup.conf)")
}
