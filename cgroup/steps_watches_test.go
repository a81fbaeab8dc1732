package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// realScope makes a scope for steps in the machine's own cgroup2 hierarchy: the
// kernel tells of a removed cgroup otherwise than of a directory (it sends no
// IN_IGNORED, and keeps the watch). The hierarchy need not have controllers.
func realScope(t *testing.T) string {
	t.Helper()
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var fs unix.Statfs_t
		if unix.Statfs(mount, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		top, err := os.MkdirTemp(mount, "slurmlet-test-")
		if err != nil {
			continue // read-only, as in most containers
		}
		t.Cleanup(func() { removeCgroups(t, top) })
		scope := filepath.Join(top, "system.slice", "n1_slurmstepd.scope")
		makeCgroups(t, scope, "system")
		return scope
	}
	t.Skip("no writable cgroup2 hierarchy")
	return ""
}

func makeCgroups(t *testing.T, dir string, below ...string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, name := range below {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
}

func removeCgroups(t *testing.T, dir string) {
	t.Helper()
	for _, name := range children(dir) {
		removeCgroups(t, filepath.Join(dir, name))
	}
	if err := unix.Rmdir(dir); err != unix.ENOENT {
		require.NoError(t, err, dir)
	}
}

// awaitInstance waits until there is an inotify instance to be had: what else runs on the
// machine may hold all of them for a while.
func awaitInstance(t *testing.T) {
	t.Helper()
	if most, _ := os.ReadFile("/proc/sys/user/max_inotify_instances"); string(most) == "0\n" {
		return // the test wants none
	}
	require.Eventually(t, func() bool {
		i, err := newInotify()
		return err == nil && i.close() == nil
	}, time.Minute, 50*time.Millisecond, "sysctl fs.inotify.max_user_instances")
}

// slurmstepd makes a step's cgroups and removes them, as Slurm does.
type slurmstepd struct {
	t     *testing.T
	scope string
}

func (s slurmstepd) begin(job, step string) {
	s.t.Helper()
	makeCgroups(s.t, filepath.Join(s.scope, job, step), "slurm", "user/task_0")
}

func (s slurmstepd) end(job, step string) {
	s.t.Helper()
	removeCgroups(s.t, filepath.Join(s.scope, job, step))
}

func (s slurmstepd) endJob(job string) {
	s.t.Helper()
	removeCgroups(s.t, filepath.Join(s.scope, job))
}

// marks counts the watches that the kernel holds for Steps (proc_pid_fdinfo(5)).
func marks(t *testing.T, s *Steps) int {
	t.Helper()
	raw, err := s.kernel.file.SyscallConn()
	require.NoError(t, err)
	var text []byte
	require.NoError(t, raw.Control(func(fd uintptr) { text, err = os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd)) }))
	require.NoError(t, err)
	return strings.Count(string(text), "inotify wd:")
}

// watchReal watches a scope in which nobody's steps are removed by Steps itself.
func watchReal(t *testing.T, scope string) *Steps {
	t.Helper()
	awaitInstance(t)
	s := NewFS("/").newSteps(scope, StepOptions{Headroom: 1 << 20, Observe: func(e StepEvent) {
		if fault, is := e.(StepFault); is {
			assert.NoError(t, fault.Err)
		}
	}})
	s.settle = time.Hour
	_, err := s.begin()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// A watch that outlives its cgroup counts against max_user_watches, which all of
// root's containers share, for as long as the agent lives.
func TestNoWatchOutlivesItsCgroup(t *testing.T) {
	for name, live := range map[string]func(slurmstepd, int){
		"a step in each job": func(s slurmstepd, i int) {
			job := fmt.Sprintf("job_%d", i+1)
			s.begin(job, "step_batch")
			s.end(job, "step_batch")
			s.endJob(job)
		},
		"many steps in one job": func(s slurmstepd, i int) {
			step := fmt.Sprintf("step_%d", i)
			s.begin("job_1", step)
			s.end("job_1", step)
		},
		"a slurmstepd that comes and goes": func(s slurmstepd, i int) {
			s.begin("job_1", "step_0")
			removeCgroups(s.t, filepath.Join(s.scope, "job_1/step_0/slurm"))
		},
		"a job with the same number again": func(s slurmstepd, i int) {
			s.begin("job_1", "step_batch")
			s.begin("job_1", "step_extern")
			s.endJob("job_1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			slurm := slurmstepd{t, realScope(t)}
			s := watchReal(t, slurm.scope)
			before := marks(t, s)
			for i := range 500 {
				live(slurm, i)
			}
			slurm.endJob("job_1")
			require.Eventually(t, func() bool { return marks(t, s) == before }, time.Minute, 10*time.Millisecond,
				"watches that are left: %d", marks(t, s)-before)
		})
	}
}

// What is lost with an overflow (IN_Q_OVERFLOW) is found by a look: another
// cgroup may have come in the place of one that is watched.
func TestOverflowLosesNoStep(t *testing.T) {
	slurm := slurmstepd{t, realScope(t)}
	slurm.begin("job_1", "step_batch")
	slurm.begin("job_2", "step_batch")
	slurm.begin("job_3", "step_batch")
	s := watchReal(t, slurm.scope)
	three := marks(t, s)
	release := make(chan struct{})
	s.due <- func() { <-release }
	overflow(t, slurm.scope)
	slurm.endJob("job_1")
	slurm.endJob("job_2")
	slurm.begin("job_2", "step_batch")
	slurm.end("job_3", "step_batch")
	slurm.begin("job_3", "step_batch")
	slurm.begin("job_4", "step_batch")
	close(release)
	require.EventuallyWithT(t, func(t *assert.CollectT) { assert.Equal(t, []string{"job_2", "job_3", "job_4"}, s.known()) }, time.Minute, 10*time.Millisecond)
	require.Equal(t, three, marks(t, s))
	for _, job := range []string{"job_2", "job_3", "job_4"} {
		slurm.endJob(job)
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) { assert.Empty(t, s.known()) }, time.Minute, 10*time.Millisecond)
	require.Equal(t, 1, marks(t, s))
}

// known are the names of the jobs; the owner is asked.
func (s *Steps) known() []string {
	names := make(chan []string, 1)
	s.due <- func() { names <- slices.Sorted(maps.Keys(s.jobs)) }
	return <-names
}

// overflow makes more events than the kernel keeps.
func overflow(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	require.NoError(t, err)
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	if most > 100_000 {
		t.Skip("max_queued_events is too high")
	}
	for i := range most/2 + 1000 { // two events each, and a buffer full of them may have been read
		name := filepath.Join(dir, fmt.Sprintf("other-%d", i))
		require.NoError(t, unix.Mkdir(name, 0o755))
		require.NoError(t, unix.Rmdir(name))
	}
}

// Where root's containers have used inotify up, steps are looked at again and
// again. The test runs once more in a user namespace, whose limits are its own
// (user_namespaces(7), /proc/sys/user): nobody else's watches are used up.
func TestStepsWithoutInotify(t *testing.T) {
	for name, limit := range map[string]struct{ file, value, complaint string }{
		"no watch":      {"max_inotify_watches", "0", "no space left on device"},
		"a few watches": {"max_inotify_watches", "2", "no space left on device"},
		"no instance":   {"max_inotify_instances", "0", "too many open files"},
	} {
		t.Run(name, func(t *testing.T) {
			if !apart(t, limit.file, limit.value) {
				return
			}
			s := newSlurm(t, map[string]string{scope + "/job_3/memory.max": "4096", scope + "/job_3/memory.high": "4096"})
			s.step("job_3/step_0", false, true)
			s.watch(StepOptions{Headroom: 4096, Kill: true})
			fault, is := s.next().(StepFault)
			require.True(t, is)
			require.ErrorContains(t, fault.Err, limit.complaint)
			assert.Equal(t, StepOrphaned{StepID{"3", "0"}, true}, s.next())
			s.until("job_3/memory.max", "8192")
			s.write("job_7/memory.max", "4096")
			s.write("job_7/memory.high", "4096")
			s.write("job_7/step_0/slurm/cgroup.events", "populated 1\n")
			require.NoError(t, os.Rename(filepath.Join(s.root, "job_7"), filepath.Join(s.root, scope, "job_7")))
			s.until("job_7/memory.max", "8192")
			s.step("job_3/step_0", false, false)
			assert.Equal(t, StepRemoved{filepath.Join(s.root, scope, "job_3/step_0")}, s.next())
		})
	}
}

// inside is set where a test runs again.
const inside = "SLURMLET_TEST_APART"

// apart runs the test again in a user namespace with a limit of its own, and says
// whether this is that run.
func apart(t *testing.T, file, value string) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		require.NoError(t, os.WriteFile(filepath.Join("/proc/sys/user", file), []byte(value), 0))
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	same := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: same, GidMappings: same, Pdeathsig: unix.SIGKILL}
	said, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EUSERS) {
		t.Skip("no user namespaces here")
	}
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), "--- PASS: "+t.Name(), "%s", said)
	return false
}
