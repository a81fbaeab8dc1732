package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const scope = "sys/fs/cgroup/system.slice/n1_slurmstepd.scope"

// slurm is a directory that looks like the cgroups of one node. The kernel's
// part, to make files and to refuse to remove what is in use, is in the e2e tests.
type slurm struct {
	t      *testing.T
	root   string
	events chan StepEvent
}

func newSlurm(t *testing.T, files map[string]string) *slurm {
	s := &slurm{t, t.TempDir(), make(chan StepEvent, 16)}
	s.write(scope+"/system/cgroup.procs", "")
	for name, content := range files {
		s.write(name, content)
	}
	return s
}

// step is a step's cgroup with or without its slurmstepd and its processes.
func (s *slurm) step(path string, slurmstepd, tasks bool) {
	populated := map[bool]string{false: "populated 0\nfrozen 0\n", true: "populated 1\nfrozen 0\n"}
	s.write(scope+"/"+path+"/cgroup.kill", "")
	s.write(scope+"/"+path+"/slurm/cgroup.events", populated[slurmstepd])
	s.write(scope+"/"+path+"/user/cgroup.events", populated[tasks])
	s.write(scope+"/"+path+"/cgroup.events", populated[slurmstepd || tasks]) // it may be removed now
}

func (s *slurm) write(name, content string) {
	path := filepath.Join(s.root, name)
	require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(s.t, os.WriteFile(path, []byte(content), 0o644))
}

func (s *slurm) read(name string) string {
	text, err := os.ReadFile(filepath.Join(s.root, scope, name))
	require.NoError(s.t, err)
	return string(text)
}

// rmdir removes a cgroup as the kernel does: with its interface files, and not
// while there are cgroups in it.
func rmdir(path string) error {
	if len(children(path)) > 0 {
		return unix.EBUSY
	}
	return os.RemoveAll(path)
}

func (s *slurm) watch(o StepOptions) {
	o.Observe = func(e StepEvent) { s.events <- e }
	awaitInstance(s.t)
	steps := NewFS(s.root).newSteps("/"+scope, o)
	steps.settle, steps.again, steps.rmdir = 5*time.Millisecond, 20*time.Millisecond, rmdir
	w, err := steps.begin()
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, w.Close()) })
}

func (s *slurm) next() StepEvent {
	s.t.Helper()
	select {
	case e := <-s.events:
		return e
	case <-time.After(time.Minute):
		require.Fail(s.t, "nothing was told")
		return nil
	}
}

func (s *slurm) until(file, want string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.read(file) == want }, time.Minute, time.Millisecond, "%s", file)
}

// quiet: nothing is told within many times the time in which it would be.
func (s *slurm) quiet() {
	s.t.Helper()
	select {
	case e := <-s.events:
		require.Fail(s.t, "told too early", "%v", e)
	case <-time.After(100 * time.Millisecond):
	}
}

func TestHeadroom(t *testing.T) {
	const limit, raised = 100 << 20, "136314880" // and 30 MiB
	s := newSlurm(t, map[string]string{
		scope + "/job_3/memory.max":                          strconv.Itoa(limit),
		scope + "/job_3/memory.high":                         strconv.Itoa(limit),
		scope + "/job_3/step_0/user/memory.max":              strconv.Itoa(limit),
		scope + "/job_4/memory.max":                          "max\n",
		scope + "/job_4/memory.high":                         "max\n",
		scope + "/job_5/memory.max":                          strconv.Itoa(limit + 30<<20),
		scope + "/job_5/memory.high":                         strconv.Itoa(limit + 30<<20),
		scope + "/job_5/step_batch/user/memory.max":          strconv.Itoa(limit),
		scope + "/job_5/step_batch/user/memory.high":         strconv.Itoa(limit),
		scope + "/job_5/step_extern/user/memory.max":         "max",
		scope + "/s3ZHM7YA8WME00/memory.max":                 strconv.Itoa(limit),
		scope + "/s3ZHM7YA8WME00/memory.high":                strconv.Itoa(limit),
		scope + "/slurmd/memory.max":                         strconv.Itoa(limit),
		scope + "/job_3/step_0/slurm/cgroup.events":          "populated 1\n", // a job without a step is removed
		scope + "/job_4/step_0/slurm/cgroup.events":          "populated 1\n",
		scope + "/job_5/step_batch/slurm/cgroup.events":      "populated 1\n",
		scope + "/s3ZHM7YA8WME00/step_0/slurm/cgroup.events": "populated 1\n",
	})
	s.watch(StepOptions{Headroom: 30 << 20})
	for _, job := range []string{"job_3", "s3ZHM7YA8WME00"} {
		s.until(job+"/memory.max", raised)
		s.until(job+"/memory.high", raised)
	}
	assert.Equal(t, "max\n", s.read("job_4/memory.max"), "no limit stays none")
	assert.Equal(t, raised, s.read("job_5/memory.max"), "it had been raised before")
	assert.Equal(t, strconv.Itoa(limit), s.read("slurmd/memory.max"), "slurmd is no job")
	assert.Equal(t, strconv.Itoa(limit), s.read("job_3/step_0/user/memory.max"), "the step is held to its limit")
	// The next step's slurmstepd writes what the job was given.
	s.write(scope+"/job_3/memory.max", strconv.Itoa(limit))
	s.until("job_3/memory.max", raised)
	s.write(scope+"/job_3/memory.max", strconv.Itoa(limit/2))
	s.until("job_3/memory.max", strconv.Itoa(limit/2+30<<20))
}

func TestNoHeadroom(t *testing.T) {
	s := newSlurm(t, map[string]string{scope + "/job_3/memory.max": "4096", scope + "/job_3/memory.high": "4096"})
	s.step("job_3/step_0", false, true)
	s.watch(StepOptions{})
	s.next()
	assert.Equal(t, "4096", s.read("job_3/memory.max"))
}

func TestStepWithoutSlurmstepd(t *testing.T) {
	for name, c := range map[string]struct {
		dir  string
		id   StepID
		kill string
	}{
		"ended":               {"job_3/step_batch", StepID{"3", "batch"}, "1"},
		"kept":                {"job_3/step_0", StepID{"3", "0"}, ""},
		"known by its SLUID":  {"s3ZHM7YA8WME00/step_extern", StepID{"s3ZHM7YA8WME00", "extern"}, "1"},
		"of a heterogeneous ": {"job_12/step_0+1", StepID{"12", "0+1"}, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlurm(t, nil)
			s.step(c.dir, false, true)
			s.watch(StepOptions{Kill: c.kill != ""})
			assert.Equal(t, StepOrphaned{c.id, true}, s.next())
			assert.Equal(t, c.kill, s.read(c.dir+"/cgroup.kill"))
			s.quiet() // it is told once
			s.step(c.dir, false, false)
			assert.Equal(t, StepRemoved{filepath.Join(s.root, scope, c.dir)}, s.next())
			assert.NoDirExists(t, filepath.Join(s.root, scope, c.dir))
		})
	}
}

// The number of a job whose cgroup has its SLUID is what slurmstepd calls itself by.
func TestStepThatLosesItsSlurmstepd(t *testing.T) {
	const dir = "s3ZHM7YA8WME00/step_0"
	s := newSlurm(t, map[string]string{"proc/77/cmdline": "slurmstepd: [3.0 stepmgr]\x00\x00", scope + "/" + dir + "/slurm/cgroup.procs": "77\n78\n"})
	s.step(dir, true, true)
	s.watch(StepOptions{Kill: true})
	s.quiet()
	assert.Empty(t, s.read(dir+"/cgroup.kill"))
	s.step(dir, false, true)
	assert.Equal(t, StepOrphaned{StepID{"3", "0"}, true}, s.next())
}

func TestSlurmstepdThatIsElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		dir, command string
		waits        bool
	}{
		"the step's":                        {"job_3/step_batch", "slurmstepd: [3.batch]\x00", true},
		"not named yet":                     {"job_3/step_batch", "/usr/sbin/slurmstepd\x00", true},
		"of which nothing can be told":      {"job_3/step_batch", "", true},
		"of another step of the job":        {"job_3/step_batch", "slurmstepd: [3.0]\x00", false},
		"of another job":                    {"job_3/step_batch", "slurmstepd: [33.batch]\x00", false},
		"perhaps of a job with a SLUID":     {"s3ZHM7YA8WME00/step_0", "slurmstepd: [3.0]\x00", true},
		"of another step, with a SLUID":     {"s3ZHM7YA8WME00/step_0", "slurmstepd: [3.1]\x00", false},
		"that keeps the scope":              {"job_3/step_batch", "/usr/sbin/slurmstepd\x00infinity\x00", false},
		"that keeps a job's namespace":      {"job_3/step_batch", "slurmstepd: [3:namespace]\x00", false},
		"which is an epilog, no slurmstepd": {"job_3/step_batch", "/bin/sh\x00/etc/slurm/epilog\x00", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlurm(t, map[string]string{"proc/77/cmdline": c.command, scope + "/system/cgroup.procs": "77\n"})
			s.step(c.dir, false, true)
			s.watch(StepOptions{Kill: true})
			if c.waits {
				s.quiet()
				s.write(scope+"/system/cgroup.procs", "")
			}
			assert.IsType(t, StepOrphaned{}, s.next())
		})
	}
}

// slurmstepd holds the lock while it makes or removes cgroups.
func TestNothingIsRemovedUnderTheLock(t *testing.T) {
	s := newSlurm(t, nil)
	s.step("job_3/step_0", false, false)
	require.NoError(t, os.Mkdir(filepath.Join(s.root, scope, "job_4"), 0o755))
	dir, err := os.Open(filepath.Join(s.root, scope))
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(dir.Fd()), unix.LOCK_EX))
	s.watch(StepOptions{Kill: true})
	s.quiet()
	require.NoError(t, dir.Close())
	var removed []string
	for range 3 {
		if e, ok := s.next().(StepRemoved); ok {
			removed = append(removed, strings.TrimPrefix(e.Dir, filepath.Join(s.root, scope)))
		}
	}
	assert.ElementsMatch(t, []string{"/job_3/step_0", "/job_4"}, removed)
	assert.NoDirExists(t, filepath.Join(s.root, scope, "job_3"))
}

func TestJobNames(t *testing.T) {
	for name, want := range map[string]bool{
		"job_3": true, "s3ZHM7YA8WME00": true, "job_": false, "job_x": false, "system": false, "slurmd": false,
		"slurmstepd.scop": false, "s3ZHM7YA8WMEU0": false, "S3ZHM7YA8WME00": false,
	} {
		assert.Equal(t, want, isJob(name), name)
	}
}

func TestWatchWithoutACgroup(t *testing.T) {
	_, err := NewFS(t.TempDir()).WatchSteps("/"+scope, StepOptions{})
	require.ErrorContains(t, err, "cannot watch the cgroups of steps")
}

func TestClearOOMGroup(t *testing.T) {
	f := tree(t, machine("/", map[string]string{"memory.oom.group": "1\n"}))
	require.NoError(t, f.ClearOOMGroup("/sys/fs/cgroup"))
	text, err := os.ReadFile(filepath.Join(f.root, mount, "memory.oom.group"))
	require.NoError(t, err)
	assert.Equal(t, "0", string(text))
	err = tree(t, machine("/", nil)).ClearOOMGroup("/sys/fs/cgroup")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "cannot clear the container's memory.oom.group")
}

func TestOOMKills(t *testing.T) {
	f := tree(t, machine("/", map[string]string{"memory.events": "low 0\noom 2\noom_kill 7\noom_group_kill 0\n"}))
	kills, err := f.ReadOOMKills("/sys/fs/cgroup")
	require.NoError(t, err)
	assert.EqualValues(t, 7, kills)
	_, err = f.ReadOOMKills("/sys/fs/cgroup/none")
	require.Error(t, err)
}
