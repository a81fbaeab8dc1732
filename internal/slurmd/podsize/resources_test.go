package podsize

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// machineTree is a machine's file system: two cores with two threads each, 4
// GiB, cgroup v2, and what else is given.
func machineTree(t *testing.T, files map[string]string) cgroup.FS {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{
		"proc/meminfo":                     "MemTotal:        4194304 kB\n",
		"proc/self/cgroup":                 "0::/\n",
		"sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory\n",
		"sys/devices/system/cpu/online":    "0-3\n",
		"tmp/file":                         "",
	}
	for cpu, core := range []string{"0,2", "1,3", "0,2", "1,3"} {
		dir := "sys/devices/system/cpu/cpu" + string(rune('0'+cpu)) + "/topology/"
		all[dir+"package_cpus_list"], all[dir+"core_cpus_list"] = "0-3\n", core+"\n"
	}
	maps.Copy(all, files)
	for name, text := range all {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return cgroup.NewFS(root)
}

// defaults are those of the variables, without a reserve.
var defaults = Options{SpoolDir: "/var/spool/slurmd", TmpDir: "/tmp"}

func TestResources(t *testing.T) {
	limited := defaults
	limited.StorageLimit = 10 * mib
	smaller, elsewhere := limited, limited
	smaller.CPULimit, smaller.MemoryLimit = 2000, 50*mib
	elsewhere.TmpDir = "/nonexistent"
	for name, c := range map[string]struct {
		files   map[string]string
		options Options
		conf    string
		notes   []string
	}{
		"no limit at all": {nil, limited, "CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=4096 TmpDisk=10", nil},
		"limits of the cgroup": {
			map[string]string{"sys/fs/cgroup/cpu.max": "150000 100000\n", "sys/fs/cgroup/memory.max": "104857600\n"},
			limited,
			"CPUs=1 RealMemory=100 TmpDisk=10", nil,
		},
		"tighter ones of the downward API": {
			map[string]string{"sys/fs/cgroup/cpu.max": "300000 100000\n", "sys/fs/cgroup/memory.max": "104857600\n"},
			smaller,
			"CPUs=2 RealMemory=50 TmpDisk=10",
			[]string{
				"SLURMLET_CPU_LIMIT gives 2 CPUs, /sys/fs/cgroup/cpu.max 3",
				"SLURMLET_MEMORY_LIMIT gives 52428800 bytes, /sys/fs/cgroup/memory.max 104857600",
			},
		},
		"pinned to a core": {
			map[string]string{"sys/fs/cgroup/cpuset.cpus.effective": "1,3\n"},
			limited,
			"CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=4096 TmpDisk=10 CpuSpecList=0-1", nil,
		},
		"pinned to a CPU that is offline, too": {
			map[string]string{"sys/fs/cgroup/cpuset.cpus.effective": "1\n", "sys/fs/cgroup/cpuset.cpus": "1,9\n"},
			limited,
			"CPUs=4 RealMemory=4096 TmpDisk=10 CpuSpecList=0-1,3",
			[]string{"/sys/fs/cgroup/cpuset.cpus names the CPUs 9, which are offline: they are not counted"},
		},
		"no TmpFS": {nil, elsewhere, "CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=4096", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := read(machineTree(t, c.files), c.options)
			require.NoError(t, err)
			s, err := nodesize.NewSize(r, 0)
			require.NoError(t, err)
			assert.Equal(t, c.conf, s.Conf())
			assert.Equal(t, c.notes, r.Disagreements)
		})
	}
}

func TestDisk(t *testing.T) {
	machine := machineTree(t, nil)
	size, err := machine.DiskSize("/tmp")
	require.NoError(t, err)
	for source, limit := range map[string]int64{"/tmp": 1 << 60, "SLURMLET_STORAGE_LIMIT": mib} {
		r, err := read(machine, Options{TmpDir: "/tmp", SpoolDir: "/not/yet/there", StorageLimit: limit})
		require.NoError(t, err)
		assert.Equal(t, source, r.Disk.Source)
		assert.LessOrEqual(t, r.Disk.Value, size)
	}
	_, err = read(machine, Options{TmpDir: "/tmp/file/dir"})
	require.ErrorContains(t, err, "SLURMLET_TMP_DIR: cannot read the size of the file system of /tmp/file/dir: not a directory")
}

func TestResourcesThatDoNotParse(t *testing.T) {
	for want, files := range map[string]map[string]string{
		`/sys/fs/cgroup/cpu.max: cannot use "garbage": the quota is neither "max" nor a positive number of microseconds`: {"sys/fs/cgroup/cpu.max": "garbage\n"},
		`/sys/fs/cgroup/cpuset.cpus: cannot use "8-9": none of these CPUs is online; 0-3 are`: {
			"sys/fs/cgroup/cpuset.cpus": "8-9\n", "sys/fs/cgroup/cpuset.cpus.effective": "0-3\n",
		},
		`/sys/devices/system/cpu/online: cannot use "all": want CPU numbers from 0 to 8191 and ranges of them, as in 0-2,5`: {"sys/devices/system/cpu/online": "all\n"},
	} {
		_, err := read(machineTree(t, files), defaults)
		require.EqualError(t, err, want)
	}
}

// read is readResources with what the variables tell, and no volume.
func read(machine cgroup.FS, o Options) (nodesize.Resources, error) {
	return readResources(machine, o, o.downward())
}
