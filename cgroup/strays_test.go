package cgroup

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const leafDir, penDir = "sys/fs/cgroup/slurmlet", "sys/fs/cgroup/strays"

// daemonsPIDs are those of fakeDaemons: PID 1, slurmd, a slurmstepd that begins, sssd and its child.
const daemonPIDs = "0\n1\n14\n15\n20\n21\n"

var fakeDaemons = map[string]string{
	"proc/1/status":  status("slurmlet", 0, 0, 15),
	"proc/14/status": status("slurmd", 1, 0, 10),
	"proc/15/status": status("slurmstepd", 14, 0, 10),
	"proc/20/status": status("sssd", 1, 0, 10),
	"proc/21/status": status("sssd_be", 20, 0, 40),
}

func status(name string, parent, uid, mebibytes int) string {
	return fmt.Sprintf("Name:\t%s\nPPid:\t%d\nUid:\t%d\t%d\t%d\t%d\nVmRSS:\t%d kB\n", name, parent, uid, uid, uid, uid, mebibytes<<10)
}

// strayWorld is a container of 1 GiB, of which the daemons use 32 MiB.
type strayWorld struct {
	*Strays
	t      *testing.T
	events []StrayEvent
}

func newStrayWorld(t *testing.T) *strayWorld {
	t.Helper()
	files := map[string]string{
		"sys/fs/cgroup/memory.max": "1073741824\n", "sys/fs/cgroup/memory.current": "536870912\n",
		leafDir + "/memory.current": strconv.Itoa(32 << 20), leafDir + "/memory.high": "max\n",
		penDir + "/memory.events": "high 0\noom_kill 0\n", penDir + "/memory.current": "0\n", penDir + "/memory.high": "max\n",
		penDir + "/memory.max": "max\n", penDir + "/cgroup.procs": "",
		leafDir + "/memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n", leafDir + "/cgroup.procs": daemonPIDs,
	}
	maps.Copy(files, fakeDaemons)
	w := &strayWorld{t: t}
	f := tree(t, files)
	w.Strays = f.newStrays(Delegation{Base: "/" + mount}, StrayOptions{
		Reserve: 64 << 20, Daemons: func() []int { return []int{14} }, Helpers: func() []int { return []int{20} },
		Observe: func(e StrayEvent) { w.events = append(w.events, e) },
	})
	w.find = func() (string, error) { return "/" + leafDir, nil }
	w.pidfd = func(int) (int, error) { return unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0) }
	require.NoError(t, w.begin())
	return w
}

func (w *strayWorld) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.fs.root, name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o644))
}

func (w *strayWorld) enters(pid int, name string, parent, uid, mebibytes int) {
	w.t.Helper()
	w.write(fmt.Sprintf("proc/%d/status", pid), status(name, parent, uid, mebibytes))
	w.write(fmt.Sprintf("proc/%d/oom_score_adj", pid), "-997\n")
	procs, err := os.ReadFile(filepath.Join(w.fs.root, leafDir, "cgroup.procs"))
	require.NoError(w.t, err)
	w.write(leafDir+"/cgroup.procs", string(procs)+strconv.Itoa(pid)+"\n")
}

func (w *strayWorld) score(pid int) string {
	text, err := os.ReadFile(filepath.Join(w.fs.root, "proc", strconv.Itoa(pid), "oom_score_adj"))
	require.NoError(w.t, err)
	return string(text)
}

// limits are memory.high of the agent's cgroup, and memory.high and memory.max of the strays', in MiB.
func (w *strayWorld) limits() (all [3]int) {
	for i, name := range []string{leafDir + "/memory.high", penDir + "/memory.high", penDir + "/memory.max"} {
		limit, err := readLimit(filepath.Join(w.fs.root, name))
		require.NoError(w.t, err)
		all[i] = int(limit >> 20)
	}
	return all
}

func (w *strayWorld) counted(dir string, high, kills int) {
	w.t.Helper()
	w.write(dir+"/memory.events", fmt.Sprintf("low 0\nhigh %d\nmax 0\noom 0\noom_kill %d\n", high, kills))
}

// moved is what was written to the strays' cgroup.procs last; a file keeps no more.
func (w *strayWorld) moved() string {
	text, err := os.ReadFile(filepath.Join(w.fs.root, penDir, "cgroup.procs"))
	require.NoError(w.t, err)
	return string(text)
}

func (w *strayWorld) told() []StrayEvent {
	told := w.events
	w.events = nil
	return told
}

// TestStrays: what is no daemon dies first once the reserve is used up, and is named when it was killed.
func TestStrays(t *testing.T) {
	w := newStrayWorld(t)
	assert.Equal(t, 64, w.limits()[0])
	w.enters(30, "bash", 0, 0, 4)
	w.enters(31, "perl", 30, 1000, 60)
	w.enters(32, "prolog", 14, 0, 2)    // a child of slurmd's
	w.enters(33, "slurmd", 14, 1000, 1) // a user's, of that name
	require.NoError(t, w.look(nil))
	assert.Equal(t, "-997\n", w.score(31), "nothing happens before the reserve is used up")

	w.counted(leafDir, 5, 0)
	w.write(leafDir+"/memory.current", strconv.Itoa(100<<20))
	require.NoError(t, w.look(nil))
	for _, pid := range []int{30, 31, 32, 33} {
		assert.Equal(t, "1000", w.score(pid), pid)
	}
	assert.Equal(t, "33", w.moved())
	assert.NoFileExists(t, filepath.Join(w.fs.root, "proc/21/oom_score_adj"))
	perl := Stray{31, 1000, "perl", 60 << 20}
	assert.Equal(t, []StrayEvent{StraysMarked{[]Stray{perl, {30, 0, "bash", 4 << 20}, {32, 0, "prolog", 2 << 20}, {33, 1000, "slurmd", 1 << 20}}}}, w.told())
	assert.Equal(t, [3]int{116, 472, 480}, w.limits(), "512 MiB are left of the container's 1 GiB")

	w.write(leafDir+"/cgroup.procs", daemonPIDs)
	w.write(penDir+"/cgroup.procs", "30\n31\n32\n33\n")
	w.write(penDir+"/memory.current", strconv.Itoa(472<<20))
	w.write("sys/fs/cgroup/memory.current", strconv.Itoa(768<<20)) // a job has ended meanwhile
	w.counted(penDir, 1, 0)
	require.NoError(t, w.look(nil))
	assert.Equal(t, [3]int{116, 472 + 256 - 40, 472 + 256 - 32}, w.limits())
	w.write("sys/fs/cgroup/memory.current", strconv.Itoa(1024<<20)) // jobs have taken the rest
	w.counted(penDir, 2, 0)
	require.NoError(t, w.look(nil))
	assert.Equal(t, [3]int{116, 1024, 472 - 32}, w.limits(), "the kernel kills at once")
	assert.Empty(t, w.told())

	w.counted(penDir, 2, 1)
	require.NoError(t, w.look([]int{31}))
	assert.Equal(t, []StrayEvent{StrayKilled{perl}}, w.told())
	assert.Equal(t, "perl (process 31, uid 1000, 60 MiB)", perl.String())

	w.write(leafDir+"/memory.current", strconv.Itoa(40<<20))
	w.write(penDir+"/cgroup.procs", "")
	require.NoError(t, w.look([]int{30, 32, 33}))
	assert.Empty(t, w.told(), "they have ended by themselves")
	assert.Equal(t, 64, w.limits()[0])
}

// TestStraysChildren: a stray has ended and has left children, which are strays.
func TestStraysChildren(t *testing.T) {
	w := newStrayWorld(t)
	w.enters(31, "bash", 0, 1000, 60)
	w.counted(leafDir, 1, 0)
	require.NoError(t, w.look(nil))
	require.Len(t, w.told(), 1)
	w.enters(34, "perl", 31, 1000, 60)
	w.write(leafDir+"/cgroup.procs", daemonPIDs)
	w.write(penDir+"/cgroup.procs", "34\n")
	require.NoError(t, w.look([]int{31}))
	assert.Empty(t, w.told())
	assert.Contains(t, w.known, 34)
	assert.Equal(t, "34\n", w.moved(), "it is there already")
}

// TestStraysOfNobody: the daemons themselves use more than the reserve, and only the kernel's cache may be the cause.
func TestStraysOfNobody(t *testing.T) {
	w := newStrayWorld(t)
	w.write(leafDir+"/memory.current", strconv.Itoa(64<<20))
	w.counted(leafDir, 1, 0)
	require.NoError(t, w.look(nil))
	assert.Equal(t, 80, w.limits()[0])
	assert.Empty(t, w.told())
}

// TestStraysWithoutALimit: a container without one has nothing to share.
func TestStraysWithoutALimit(t *testing.T) {
	w := newStrayWorld(t)
	w.write("sys/fs/cgroup/memory.max", "max\n")
	w.enters(31, "perl", 0, 1000, 60)
	w.counted(leafDir, 1, 0)
	require.NoError(t, w.look(nil))
	require.Len(t, w.told(), 1)
	assert.Equal(t, "1000", w.score(31))
	limits := w.limits()
	assert.Equal(t, []int{-1, -1}, limits[1:], "none")
}
