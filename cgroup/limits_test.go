package cgroup

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tree writes a machine's file system: path → content.
func tree(t testing.TB, files map[string]string) FS {
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(root, "proc/42"), 0o755))
	require.NoError(t, os.Symlink("42", filepath.Join(root, "proc/self")))
	return NewFS(root)
}

// machine is one with 8 CPUs and cgroup v2, and own as the process's cgroup.
func machine(own string, files map[string]string) map[string]string {
	all := map[string]string{
		"sys/devices/system/cpu/online":    "0-7\n",
		"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
		"proc/42/cgroup":                   "0::" + own + "\n",
	}
	for name, content := range files {
		all["sys/fs/cgroup/"+name] = content
	}
	return all
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		own   string
		files map[string]string
		want  string // quota, cpuset, memory
		from  string // where the memory limit was found
	}{
		"none": {"/", nil, "0  0", ""},
		"none, said so": {"/", map[string]string{
			"cpu.max": "max 100000\n", "memory.max": "max\n", "cpuset.cpus.effective": "0-7\n",
		}, "0  0", ""},
		"of the container": {"/", map[string]string{
			"cpu.max": "150000 100000\n", "memory.max": "536870912\n", "cpuset.cpus.effective": "2-3\n",
		}, "1.5 2-3 536870912", "/sys/fs/cgroup/memory.max"},
		"of the container, from the agent's leaf": {"/slurmlet", map[string]string{
			"slurmlet/cpu.max": "max 100000\n", "slurmlet/memory.max": "max\n",
			"cpu.max": "50000 100000\n", "memory.max": "1048576\n", "cpuset.cpus.effective": "0-7\n",
		}, "0.5  1048576", "/sys/fs/cgroup/memory.max"},
		"of the pod, tighter, in the host's cgroup namespace": {"/kubepods/pod1/c1", map[string]string{
			"kubepods/pod1/c1/cpu.max": "400000 100000\n", "kubepods/pod1/c1/memory.max": "2097152\n",
			"kubepods/pod1/cpu.max": "200000 100000\n", "kubepods/pod1/memory.max": "1048576\n",
			"kubepods/cpu.max": "max 100000\n",
		}, "2  1048576", "/sys/fs/cgroup/kubepods/pod1/memory.max"},
		"of a process outside its own namespace": {"/../c2", map[string]string{"memory.max": "7\n"}, "0  7", "/sys/fs/cgroup/memory.max"},
		"an offline CPU in the set":              {"/", map[string]string{"cpuset.cpus.effective": "1,9\n"}, "0 1 0", ""},
		"another period":                         {"/", map[string]string{"cpu.max": "10000 20000\n"}, "0.5  0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := tree(t, machine(c.own, c.files)).Limits()
			require.NoError(t, err)
			assert.Equal(t, c.want, show(l))
			assert.Equal(t, c.from, l.Memory.Source)
		})
	}
}

func TestMoreLimits(t *testing.T) {
	l, err := tree(t, machine("/leaf", map[string]string{
		"leaf/memory.swap.max": "max\n", "memory.swap.max": "0\n", "leaf/cpuset.cpus": "\n", "cpuset.cpus": "6-9\n",
		"leaf/cpuset.cpus.effective": "6-7\n", "cpuset.cpus.effective": "6-7\n",
	})).Limits()
	require.NoError(t, err)
	assert.Equal(t, Bound[int64]{0, "/sys/fs/cgroup/memory.swap.max"}, l.Swap)
	assert.Equal(t, Bound[Set]{set(t, "8-9"), "/sys/fs/cgroup/cpuset.cpus"}, l.Offline)
	assert.Equal(t, Bound[Set]{set(t, "6-7"), "/sys/fs/cgroup/leaf/cpuset.cpus.effective"}, l.CPUSet)
}

func show(l Limits) string {
	return trim(l.Quota.Value) + " " + l.CPUSet.Value.String() + " " + trim(l.Memory.Value)
}

func TestLimitsThatDoNotParse(t *testing.T) {
	for name, c := range map[string]struct{ file, content, want string }{
		"no quota":        {"cpu.max", "", `/sys/fs/cgroup/cpu.max: cannot use "": want "max" or a quota, and a period, in microseconds`},
		"words":           {"cpu.max", "lots 100000", `the quota is neither "max" nor a positive number of microseconds`},
		"a quota of zero": {"cpu.max", "0 100000", `the quota is neither`},
		"no period":       {"cpu.max", "100000 0", `the period is not a positive number of microseconds`},
		"three fields":    {"cpu.max", "1 2 3", `want "max" or a quota`},
		"negative memory": {"memory.max", "-1", `/sys/fs/cgroup/memory.max: cannot use "-1": want "max" or a number of bytes`},
		"memory in MiB":   {"memory.max", "512Mi", `want "max" or a number of bytes`},
		"a CPU too many":  {"cpuset.cpus.effective", "0-9999", `want CPU numbers from 0 to 8191`},
		"backwards":       {"cpuset.cpus.effective", "3-1", `range "3-1" runs backwards`},
		"swap in MiB":     {"memory.swap.max", "1Mi", `/sys/fs/cgroup/memory.swap.max: cannot use "1Mi": want "max" or a number of bytes`},
		"all offline": {
			"cpuset.cpus", "8-9", `/sys/fs/cgroup/cpuset.cpus: cannot use "8-9": none of these CPUs is online; 0-7 are`,
		},
		"all effective ones offline": {
			"cpuset.cpus.effective", "8", `/sys/fs/cgroup/cpuset.cpus.effective: cannot use "8": none of these CPUs is online; 0-7 are`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tree(t, machine("/", map[string]string{c.file: c.content})).Limits()
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestLimitsWithoutCgroup2(t *testing.T) {
	_, err := tree(t, map[string]string{"proc/42/cgroup": "4:memory:/a\n"}).Limits()
	require.ErrorIs(t, err, ErrNotUnified)
}

func TestMachine(t *testing.T) {
	f := tree(t, map[string]string{
		"sys/devices/system/cpu/online": "0-2,4\n",
		"proc/meminfo":                  "MemTotal:       16384 kB\nMemFree: 1 kB\n",
	})
	online, err := f.Online()
	require.NoError(t, err)
	assert.Equal(t, "0-2,4", online.String())
	total, err := f.MemTotal()
	require.NoError(t, err)
	assert.Equal(t, int64(16<<20), total)
	_, err = NewFS(t.TempDir()).MemTotal()
	require.Error(t, err)
	root, err := NewFS("/").DiskSize("/")
	require.NoError(t, err)
	assert.Positive(t, root)
	_, err = NewFS("/").DiskSize("/nonexistent")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func FuzzLimits(f *testing.F) {
	f.Add("150000 100000", "536870912", "0-2,5")
	f.Add("max 100000", "max", "")
	f.Fuzz(func(t *testing.T, cpu, memory, set string) {
		if quota, err := parseCPUMax(cpu); err == nil && (quota < 0 || quota != quota) {
			t.Errorf("%q is %v CPUs", cpu, quota)
		}
		if bytes, err := parseBytesMax(memory); err == nil && bytes < -1 {
			t.Errorf("%q is %d bytes", memory, bytes)
		}
		if s, err := ParseSet(set); err == nil {
			again, err := ParseSet(s.String())
			require.NoError(t, err)
			require.Equal(t, s, again, "%q is written %q", set, s)
		}
	})
}
