package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeUsers is a login pod without a kernel: it has files where cgroups would have theirs.
func fakeUsers(t *testing.T, asked UserLimits) (*Users, string) {
	t.Helper()
	root := t.TempDir()
	for path, text := range map[string]string{
		"sys/fs/cgroup/cgroup.controllers": "", "proc/self/cgroup": "0::/\n", "sys/devices/system/cpu/online": "0\n",
		"sys/fs/cgroup/memory.max": "268435456\n", "sys/fs/cgroup/pids.max": "max\n",
		"sys/fs/cgroup/sessions/new/cgroup.procs": "", "proc/meminfo": "MemTotal: 1048576 kB\n",
	} {
		put(t, filepath.Join(root, path), text)
	}
	notify, err := newInotify()
	require.NoError(t, err)
	t.Cleanup(func() { _ = notify.close() })
	base := filepath.Join(root, "sys/fs/cgroup")
	return &Users{
		fs: NewFS(root), base: base, dir: filepath.Join(base, sessions), asked: asked, notify: notify, counted: map[int]*userCounts{},
	}, root
}

func put(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// userFiles are those of a user's cgroup.
func (u *Users) userFiles(t *testing.T, name string) {
	t.Helper()
	for _, file := range []string{"cgroup.procs", "memory.max", "pids.max", "memory.events", "pids.events"} {
		put(t, filepath.Join(u.dir, name, file), "")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// TestUserLimits: what nobody has asked for is half of the container's, or of the machine's.
func TestUserLimits(t *testing.T) {
	for _, c := range []struct {
		asked        UserLimits
		memory, pids string
		want         UserLimits
	}{
		{UserLimits{}, "268435456", "max", UserLimits{128 << 20, 1000}},
		{UserLimits{}, "max", "400", UserLimits{512 << 20, 200}},
		{UserLimits{}, "max", "1", UserLimits{512 << 20, 1}},
		{UserLimits{}, "max", "100000", UserLimits{512 << 20, 1000}},
		{UserLimits{Memory: 1 << 30}, "268435456", "max", UserLimits{1 << 30, 1000}},
		{UserLimits{Processes: 5000}, "268435456", "400", UserLimits{128 << 20, 5000}},
	} {
		u, root := fakeUsers(t, c.asked)
		put(t, filepath.Join(root, "sys/fs/cgroup/memory.max"), c.memory+"\n")
		put(t, filepath.Join(root, "sys/fs/cgroup/pids.max"), c.pids+"\n")
		have, err := u.Each()
		require.NoError(t, err)
		require.Equal(t, c.want, have, "%+v", c)
	}
}

// TestUsers: a session's processes get to the user's cgroup, however they are named, and so does what has left the session
// before. sshd and the session of another user stay where they are. Root has no limits.
func TestUsers(t *testing.T) {
	u, root := fakeUsers(t, UserLimits{})
	for pid, p := range map[int]struct{ parent, uid int }{
		1: {0, 0}, 5: {1, 0}, 7: {5, 0}, 70: {7, 2001}, 700: {70, 2001}, 71: {1, 2001}, 8: {5, 0}, 80: {8, 2002},
	} {
		dir := filepath.Join(root, "proc", strconv.Itoa(pid))
		put(t, filepath.Join(dir, "stat"), fmt.Sprintf("%d (a ) b) S %d 1 1", pid, p.parent))
		put(t, filepath.Join(dir, "status"), fmt.Sprintf("Name:\ta\nPPid:\t%d\nUid:\t%d\t0\t0\t0\nVmRSS:\t1 kB\n", p.parent, p.uid))
	}
	require.ElementsMatch(t, []int{7, 70, 700}, u.fs.descendants(7))
	put(t, filepath.Join(u.dir, newcomers, "cgroup.procs"), "5\n7\n70\n700\n71\n8\n80\n")

	u.userFiles(t, "2001")
	procs := filepath.Join(u.dir, "2001", "cgroup.procs")
	require.NoError(t, u.Begin(2001, 7))
	require.Equal(t, "700", read(t, procs), "the last that was moved")
	require.Equal(t, "134217728", read(t, filepath.Join(u.dir, "2001", "memory.max")))
	require.Equal(t, "1000", read(t, filepath.Join(u.dir, "2001", "pids.max")))
	u.Sweep()
	require.Equal(t, "71", read(t, procs))

	u.userFiles(t, "0")
	require.NoError(t, u.Begin(0, 8))
	require.Empty(t, read(t, filepath.Join(u.dir, "0", "memory.max")))

	require.ErrorContains(t, u.Begin(2002, 8), "cannot limit a user")
	require.DirExists(t, filepath.Join(u.dir, "2001"))
	require.NoError(t, os.Mkdir(filepath.Join(u.dir, "2003"), 0o755))
	u.End()
	require.NoDirExists(t, filepath.Join(u.dir, "2003"))
	require.DirExists(t, filepath.Join(u.dir, "2001"), "a process is left there")
}

// TestUserEvents: what the limits do is told, each once.
func TestUserEvents(t *testing.T) {
	u, _ := fakeUsers(t, UserLimits{})
	events := make(chan UserEvent, 10)
	u.observe = func(e UserEvent) { events <- e }
	u.userFiles(t, "2001")
	dir := filepath.Join(u.dir, "2001")
	require.NoError(t, u.open(2001))
	require.NoError(t, u.open(2001), "a second session")
	go u.follow()
	put(t, filepath.Join(dir, "memory.events"), "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n")
	require.Equal(t, UserEvent{2001, 2, 0}, <-events)
	put(t, filepath.Join(dir, "pids.events"), "max 5\n")
	require.Equal(t, UserEvent{2001, 0, 5}, <-events)
	u.forget(2001)
	require.Empty(t, u.uids())
}
