package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// names are the quantities' names in the tables below.
var names = map[Quantity]string{
	CPUTime: "cpu", CPUUser: "user", CPUSystem: "system", QuotaPeriods: "periods", ThrottledPeriods: "throttled", ThrottledTime: "throttled time",
	ThrottledByAny: "throttled by any", OOMKills: "kills", CPUSome: "cpu some", CPUFull: "cpu full", MemorySome: "memory some", MemoryFull: "memory full",
	IOSome: "io some", IOFull: "io full", ReadBytes: "rbytes", WrittenBytes: "wbytes", ReadOperations: "rios", WriteOperations: "wios",
	MemoryCurrent: "memory", MemoryPeak: "peak", MemoryAnon: "anon", MemoryFile: "file", MemoryShmem: "shmem", MemoryHigh: "high", MemoryMax: "max",
	SwapCurrent: "swap", SwapMax: "swap max", Threads: "threads", ThreadsMax: "threads max",
}

func TestEveryQuantityHasAName(t *testing.T) {
	require.Len(t, names, int(quantities))
}

// told lists what is known, in the order of the quantities.
func told(u Usage) string {
	var all []string
	for q := range quantities {
		if value, known := u.Get(q); known {
			all = append(all, fmt.Sprintf("%s %d", names[q], value))
		}
	}
	return strings.Join(all, ", ")
}

func parsed(name, text string) Usage {
	var u Usage
	for _, file := range usageFiles {
		if file.name == name {
			file.read(&u, []byte(text))
		}
	}
	return u
}

// TestUsageFiles: what each interface file tells, and what it does not.
func TestUsageFiles(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"cpu.stat", "usage_usec 30\nuser_usec 20\nsystem_usec 10\nnice_usec 0\n", "cpu 30, user 20, system 10"},
		{
			"cpu.stat", "usage_usec 30\nuser_usec 20\nsystem_usec 10\nnr_periods 5\nnr_throttled 2\nthrottled_usec 7\nnr_bursts 0\nburst_usec 0\n",
			"cpu 30, user 20, system 10, periods 5, throttled 2, throttled time 7",
		},
		{"cpu.stat", "usage_usec 30\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n", "cpu 30"}, // it has no quota
		{"cpu.stat", "", ""},
		{"cpu.stat", "usage_usec\nuser_usec -1\nsystem_usec 99999999999999999999\n", ""},
		{"cpu.stat.local", "throttled_usec 12\n", "throttled by any 12"},
		{"cpu.pressure", "some avg10=0.00 avg60=1.20 avg300=0.00 total=17\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", "cpu some 17, cpu full 0"},
		{"cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=17\n", "cpu some 17"}, // before Linux 5.13
		{"memory.pressure", "some total=3\nfull total=2\n", "memory some 3, memory full 2"},
		{"io.pressure", "some total=x\nfull\nhalf total=2\n", ""},
		{"memory.current", "4096\n", "memory 4096"},
		{"memory.current", "9223372036854775807\n", "memory 9223372036854775807"},
		{"memory.current", "9223372036854775808\n", ""},
		{"memory.current", "4096 8192\n", ""},
		{"memory.peak", "8192", "peak 8192"},
		{"memory.max", "max\n", ""},
		{"memory.max", "1048576\n", "max 1048576"},
		{"memory.high", "0\n", "high 0"},
		{"memory.stat", "anon 1\nfile 2\nkernel 9\nshmem 3\nfile_mapped 4\n", "anon 1, file 2, shmem 3"},
		{"memory.events", "low 0\nhigh 1\nmax 2\noom 3\noom_kill 4\noom_group_kill 5\n", "kills 4"},
		{"memory.swap.current", "0\n", "swap 0"},
		{"memory.swap.max", "max\n", ""},
		{"pids.current", "12\n", "threads 12"},
		{"pids.max", "100\n", "threads max 100"},
		{"io.stat", "", "rbytes 0, wbytes 0, rios 0, wios 0"}, // nothing was read or written yet
		{
			"io.stat", "8:16 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0 cost.usage=5\n8:0 \n",
			"rbytes 11, wbytes 22, rios 4, wios 6",
		},
		{"io.stat", "8:16 rbytes=10 wbytes=20 rios=1 wios=2\n8:16 rbytes=10 wbytes=20 rios=1 wios=2\n", "rbytes 10, wbytes 20, rios 1, wios 2"},
		{"io.stat", "8:16 rbytes=10 wbytes=20 rios=1\nx rbytes=1 wbytes=1 rios=1 wios=1\n", "rbytes 0, wbytes 0, rios 0, wios 0"},
	} {
		assert.Equal(t, c.want, told(parsed(c.file, c.text)), "%s: %q", c.file, c.text)
	}
}

// recorded is a machine whose files were recorded: a line "-- path --" before each. A job's slurmstepd is process 77.
func recorded(t *testing.T, name string) FS {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	files := map[string]string{"proc/77/cmdline": "slurmstepd: [1.batch]\x00"}
	for part := range strings.SplitSeq("\n"+string(text), "\n-- ") {
		if path, content, found := strings.Cut(part, " --"); found {
			files[path] = strings.TrimPrefix(content, "\n") + "\n"
			if job, _, inJob := strings.Cut(path, "/cpu.stat"); inJob && isJob(filepath.Base(job)) {
				files[job+"/step_batch/slurm/cgroup.procs"] = "77\n"
			}
		}
	}
	return tree(t, files)
}

// TestRecorded: a node of each Slurm version, whose kernel has everything.
func TestRecorded(t *testing.T) {
	for version, want := range map[string][]string{
		"24.11": {
			"cpu 54170000, user 0, system 54170000, periods 207, throttled 70, throttled time 6800000, throttled by any 6800000, kills 0, cpu some 15211318, cpu full 8847711, memory some 0, memory full 0, io some 0, io full 0, rbytes 0, wbytes 0, rios 0, wios 0, memory 120713216, peak 120913920, anon 97996800, file 14422016, shmem 49152, max 536870912, swap 0, swap max 0, threads 62",
			"cpu 26360000, user 0, system 26360000, throttled by any 4720000, kills 0, cpu some 8623590, cpu full 6843059, memory some 0, memory full 0, io some 0, io full 0, rbytes 0, wbytes 0, rios 0, wios 0, memory 9129984, peak 9601024, anon 5451776, file 1736704, shmem 24576, swap 0, threads 13",
			"cpu 32920000, user 0, system 32920000, throttled by any 3760000, kills 0, cpu some 12859266, cpu full 8512266, memory some 0, memory full 0, io some 0, io full 0, rbytes 0, wbytes 0, rios 0, wios 0, memory 100081664, peak 100081664, anon 90447872, file 3731456, shmem 24576, swap 0, threads 49",
			"cpu 19360000, user 0, system 19360000, throttled by any 2270000, kills 0, cpu some 9019554, cpu full 6603937, memory some 0, memory full 0, io some 0, io full 0, rbytes 0, wbytes 0, rios 0, wios 0, memory 90296320, peak 90562560, anon 84996096, file 3264512, shmem 8192, high 243269632, max 243269632, swap 0, swap max 0, threads 20",
		},
		"26.05": {
			"cpu 59070000, user 0, system 59070000, periods 396, throttled 161, throttled time 13730000, throttled by any 13730000, kills 0, cpu some 17585429, cpu full 10519065, memory some 0, memory full 0, io some 0, io full 0, rbytes 0, wbytes 0, rios 0, wios 0, memory 80244736, peak 80605184, anon 58634240, file 14802944, shmem 28672, max 536870912, swap 0, swap max 0, threads 46",
			"cpu 35590000, user 0, system 35590000, throttled by any 6360000, kills 0, cpu some 10314766, cpu full 7732147, memory some 0, memory full 0, io some 0, io full 0, rbytes 0, wbytes 0, rios 0, wios 0, memory 9175040, peak 9375744, anon 5545984, file 2052096, shmem 20480, swap 0, threads 13",
			"cpu 24770000, user 0, system 24770000, throttled by any 9700000, kills 0, cpu some 13332381, cpu full 10225030, memory some 0, memory full 0, io some 0, io full 0, rbytes 0, wbytes 0, rios 0, wios 0, memory 59420672, peak 59658240, anon 50659328, file 3948544, shmem 8192, swap 0, threads 33",
			"cpu 19170000, user 0, system 19170000, throttled by any 8010000, kills 0, cpu some 12441635, cpu full 9862330, memory some 0, memory full 0, io some 0, io full 0, rbytes 0, wbytes 0, rios 0, wios 0, memory 48201728, peak 48205824, anon 43036672, file 3477504, shmem 0, high 243269632, max 243269632, swap 0, swap max 0, threads 14",
		},
	} {
		f := recorded(t, "usage-"+version+".txt")
		r := f.NewUsageReader()
		steps := "/sys/fs/cgroup/system.slice/node-2_slurmstepd.scope"
		jobs, count, err := r.ReadJobs(steps, 8)
		require.NoError(t, err)
		require.Equal(t, 1, count, version)
		require.Equal(t, "1", jobs[0].Number)
		for i, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/slurmlet", steps} {
			u, err := r.NewMeter().Read(dir)
			require.NoError(t, err)
			assert.Equal(t, want[i], told(u), "%s: %s", version, dir)
		}
		assert.Equal(t, want[3], told(jobs[0].Usage), version)
	}
}

// TestUsage: what is not there is missing, and what a user puts in a file's place is not followed.
func TestUsage(t *testing.T) {
	f := tree(t, machine("/", map[string]string{
		"job_5/cpu.stat": "usage_usec 30\n", "job_5/memory.current": "4096\n", "job_5/io.stat": strings.Repeat("x", mostUsage+1),
		"job_5/memory.peak/not-a-file": "", "secret": "77\n",
	}))
	require.NoError(t, os.Symlink("../secret", filepath.Join(f.root, mount, "job_5/pids.current")))
	require.NoError(t, os.Symlink("job_5", filepath.Join(f.root, mount, "job_6")))
	r := f.NewUsageReader()
	u, _, err := r.read("/sys/fs/cgroup/job_5")
	require.NoError(t, err)
	assert.Equal(t, "cpu 30, memory 4096", told(u))
	_, _, err = r.read("/sys/fs/cgroup/job_6")
	require.Error(t, err, "a symbolic link is no cgroup")
	_, _, err = r.read("/sys/fs/cgroup/none")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestMeter: a counter never falls, whatever becomes of the cgroup, its controllers and the disks.
func TestMeter(t *testing.T) {
	f := tree(t, machine("/", nil))
	dir := filepath.Join(f.root, mount, "scope")
	put := func(name, text string) {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	m := f.NewUsageReader().NewMeter()
	is := func(want, why string) {
		t.Helper()
		u, err := m.Read("/sys/fs/cgroup/scope")
		require.NoError(t, err)
		assert.Equal(t, want, told(u), why)
	}
	put("memory.events", "oom_kill 3\n")
	put("memory.current", "4096\n")
	put("io.stat", "8:0 rbytes=100 wbytes=10 rios=5 wios=1\n8:16 rbytes=1 wbytes=1 rios=1 wios=1\n")
	is("kills 3, rbytes 101, wbytes 11, rios 6, wios 2, memory 4096", "at first")
	put("io.stat", "8:16 rbytes=2 wbytes=2 rios=2 wios=2\n")
	put("memory.current", "1024\n")
	is("kills 3, rbytes 102, wbytes 12, rios 7, wios 3, memory 1024", "a disk has gone; what is no counter falls")
	is("kills 3, rbytes 102, wbytes 12, rios 7, wios 3, memory 1024", "and again")
	put("io.stat", "8:0 rbytes=7 wbytes=0 rios=1 wios=0\n8:16 rbytes=2 wbytes=2 rios=2 wios=2\n")
	is("kills 3, rbytes 109, wbytes 12, rios 8, wios 3, memory 1024", "another disk has its number")
	require.NoError(t, os.Remove(filepath.Join(dir, "memory.events")))
	is("rbytes 109, wbytes 12, rios 8, wios 3, memory 1024", "the memory controller is off")
	put("memory.events", "oom_kill 1\n")
	is("kills 4, rbytes 109, wbytes 12, rios 8, wios 3, memory 1024", "it is on again")
	require.NoError(t, os.Rename(dir, dir+"-former")) // its inode stays in use
	put("memory.events", "oom_kill 2\n")
	put("io.stat", "8:16 rbytes=1 wbytes=1 rios=1 wios=1\n")
	is("kills 6, rbytes 110, wbytes 13, rios 9, wios 4", "another cgroup has its name")
	require.NoError(t, os.RemoveAll(dir))
	_, err := m.Read("/sys/fs/cgroup/scope")
	require.ErrorIs(t, err, os.ErrNotExist)
	put("memory.events", "oom_kill 0\n")
	is("kills 6", "a third one")
}

const scopeDir = "/" + scope

// TestJobs: the oldest jobs count, by the numbers that Slurm gives them on each version.
func TestJobs(t *testing.T) {
	number := func(jobs []JobUsage) (all []string) {
		for _, j := range jobs {
			all = append(all, j.Number+": "+told(j.Usage))
		}
		return all
	}
	s := newSlurm(t, map[string]string{
		scope + "/job_10/pids.current":                          "2\n",
		scope + "/job_9/pids.current":                           "1\n",
		scope + "/job_9/step_0/user/task_0/job_77/pids.current": "9\n", // what a user has made
		scope + "/system/pids.current":                          "5\n",
		scope + "/slurmd/pids.current":                          "5\n",
		scope + "/job_x/pids.current":                           "5\n",
	})
	r := NewFS(s.root).NewUsageReader()
	jobs, count, err := r.ReadJobs(scopeDir, 8)
	require.NoError(t, err)
	assert.Equal(t, []string{"9: threads 1", "10: threads 2"}, number(jobs))
	assert.Equal(t, 2, count)
	jobs, count, err = r.ReadJobs(scopeDir, 1)
	require.NoError(t, err)
	assert.Equal(t, []string{"9: threads 1"}, number(jobs))
	assert.Equal(t, 2, count)
	jobs, _, err = r.ReadJobs(scopeDir, 0)
	require.NoError(t, err)
	assert.Empty(t, jobs)
	_, _, err = r.ReadJobs("/none", 8)
	require.ErrorContains(t, err, "cannot list the cgroups of jobs")
}

// TestJobsBySLUID: their numbers are known once a slurmstepd has told them, and then without one.
func TestJobsBySLUID(t *testing.T) {
	const first, second = "s5MXM7YB10NP00", "s5MXM7YB10NP01"
	s := newSlurm(t, map[string]string{
		scope + "/" + first + "/pids.current":              "1\n",
		scope + "/" + first + "/step_0/slurm/cgroup.procs": "70\n",
		"proc/70/cmdline":                                       "slurmstepd: [8.0]\x00",
		scope + "/" + second + "/pids.current":                  "2\n",
		scope + "/" + second + "/step_batch/slurm/cgroup.procs": "77\n",
		"proc/77/cmdline":                                       "/usr/sbin/slurmstepd\x00",
	})
	r := NewFS(s.root).NewUsageReader()
	numbers := func() (all []string) {
		jobs, count, err := r.ReadJobs(scopeDir, 8)
		require.NoError(t, err)
		require.Equal(t, 2, count)
		for _, j := range jobs {
			all = append(all, j.Number)
		}
		return all
	}
	assert.Equal(t, []string{"8"}, numbers(), "a slurmstepd has not named itself yet")
	s.write("proc/77/cmdline", "slurmstepd: [9.batch]\x00")
	s.write("proc/70/cmdline", "another process now\x00")
	assert.Equal(t, []string{"8", "9"}, numbers())
	s.write(scope+"/"+first+"/step_0/slurm/cgroup.procs", "")
	s.write("proc/77/cmdline", "slurmstepd: [a secret.batch]\x00")
	assert.Equal(t, []string{"8", "9"}, numbers(), "they are remembered")
	s.write(scope+"/"+second+"/step_batch/slurm/cgroup.procs", "77\n")
	r = NewFS(s.root).NewUsageReader()
	assert.Empty(t, numbers(), "only a number is one")
	s.write("proc/70/cmdline", "slurmstepd: [8.0]\x00")
	s.write(scope+"/"+first+"/step_0/slurm/cgroup.procs", "70\n")
	s.write("proc/77/cmdline", "slurmstepd: [8.batch]\x00")
	jobs, _, err := r.ReadJobs(scopeDir, 8)
	require.NoError(t, err)
	require.Len(t, jobs, 1, "the job was requeued")
	assert.Equal(t, "threads 2", told(jobs[0].Usage))
}

// TestManyEntries: however many cgroups there are in a job's, the agent looks at some of them.
func TestManyEntries(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 * mostEntries {
		require.NoError(t, os.Mkdir(filepath.Join(dir, fmt.Sprintf("step_%d", i)), 0o755))
	}
	names, err := firstEntries(dir, mostEntries)
	require.NoError(t, err)
	assert.Len(t, names, mostEntries)
	names, err = firstEntries(t.TempDir(), mostEntries)
	require.NoError(t, err)
	assert.Empty(t, names)
}

func TestOwnLeaf(t *testing.T) {
	d := Delegation{Base: "/sys/fs/cgroup"}
	for own, want := range map[string]string{
		"/slurmlet": "/sys/fs/cgroup/slurmlet", "/slurmlet-2": "/sys/fs/cgroup/slurmlet-2", "/slurmlet/system/system": "/sys/fs/cgroup/slurmlet",
		"/": "", "/../c2": "",
	} {
		leaf, err := tree(t, machine(own, nil)).OwnLeaf(d)
		assert.Equal(t, want, leaf, own)
		assert.Equal(t, want == "", err != nil, own)
	}
}

// FuzzUsage: no text breaks a parser, whatever is known is in the text, and a line more changes
// nothing.
func FuzzUsage(f *testing.F) {
	for i, text := range []string{
		"usage_usec 30\nuser_usec 20\nnr_periods 5\n", "throttled_usec 12\n", "some avg10=0.00 total=17\nfull total=0\n", "max\n", "4096\n",
		"anon 1\nfile 2\nshmem 3\n", "low 0\noom_kill 4\n", "8:16 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n8:0 \n",
	} {
		f.Add(uint8(i), text)
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		file := usageFiles[int(which)%len(usageFiles)]
		u := parsed(file.name, text)
		for q := range quantities {
			value, known := u.Get(q)
			if known && file.name != "io.stat" {
				require.Contains(t, text, fmt.Sprint(value), "%s of %s", names[q], file.name)
			}
			require.LessOrEqual(t, value, uint64(1)<<63*uint64(len(u.disks)+1)-1)
		}
		require.LessOrEqual(t, len(u.disks), strings.Count(text, "\n")+1)
		if lines := strings.Contains(file.name, "stat") || strings.HasSuffix(file.name, "pressure"); lines && strings.HasSuffix(text, "\n") {
			require.Equal(t, told(u), told(parsed(file.name, text+"another_key 7\n")), "a newer kernel")
		}
	})
}

// FuzzMeter: whatever a kernel tells one time after the other, no counter falls.
func FuzzMeter(f *testing.F) {
	f.Add(uint16(3), uint16(1), uint16(2), uint16(1), true)
	f.Add(uint16(0), uint16(9), uint16(3), uint16(0), false)
	f.Fuzz(func(t *testing.T, a, b, c, d uint16, replaced bool) {
		f := tree(t, machine("/", nil))
		dir := filepath.Join(f.root, mount, "scope")
		m := f.NewUsageReader().NewMeter()
		var last Usage
		for i, n := range []uint16{a, b, c, d} {
			if replaced && i == 2 {
				require.NoError(t, os.Rename(dir, dir+"-former"))
			}
			require.NoError(t, os.MkdirAll(dir, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "memory.events"), fmt.Appendf(nil, "oom_kill %d\n", n), 0o644))
			disks := fmt.Appendf(nil, "8:%d rbytes=%d wbytes=1 rios=%d wios=0\n", n%3, n, n%5)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "io.stat"), disks, 0o644))
			u, err := m.Read("/sys/fs/cgroup/scope")
			require.NoError(t, err)
			for q := range counters {
				require.GreaterOrEqual(t, u.values[q], last.values[q], names[q])
			}
			last = u
		}
	})
}
