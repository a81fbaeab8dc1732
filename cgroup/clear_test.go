package cgroup

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A plain directory does not move processes out of cgroup.procs: it is the
// base in which some always stay.
func TestAnErrorNamesTheProcessesThatStay(t *testing.T) {
	f := memberOf(t, "/", own, writable, map[string]string{"cgroup.procs": "7\n0\n0\n8\n", "slurmlet/cgroup.procs": ""})
	require.NoError(t, os.Mkdir(filepath.Join(f.root, "proc/7"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(f.root, "proc/7/comm"), []byte("sleep\n"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := f.Delegate("n1")
		require.EqualError(t, err, "cannot empty the container's cgroup: after 5s there are still processes in it: 7 (sleep), 8 (gone), "+
			"2 of another pid namespace, which cannot be moved from here (a container runtime's exec that does not end, or a process that somebody put there)")
		assert.Less(t, time.Since(began), 6*time.Second)
	})
	written, err := os.ReadFile(filepath.Join(f.root, mount, Leaf, "cgroup.procs"))
	require.NoError(t, err)
	assert.Equal(t, "8", string(written), "0 means the writer, and is never written")
}

func TestAForeignProcessThatGoesIsWaitedFor(t *testing.T) {
	f := memberOf(t, "/", own, writable, map[string]string{"cgroup.procs": "0\n", "slurmlet/cgroup.procs": "", "cgroup.subtree_control": ""})
	require.NoError(t, os.MkdirAll(filepath.Join(f.root, mount, "system.slice"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(f.root, mount, "system.slice/cgroup.subtree_control"), []byte("memory cpu cpuset\n"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		time.AfterFunc(2*time.Second, func() { _ = os.WriteFile(filepath.Join(f.root, mount, "cgroup.procs"), nil, 0o600) })
		began := time.Now()
		d, err := f.Delegate("n1")
		require.NoError(t, err)
		assert.Equal(t, []string{"cpu", "cpuset", "memory"}, d.Controllers)
		assert.True(t, d.Complete())
		assert.Less(t, time.Since(began), 3*time.Second)
	})
}

func TestAProcessThatCannotBeMovedSaysWhy(t *testing.T) {
	f := memberOf(t, "/", own, writable, map[string]string{"cgroup.procs": "8\n"})
	// A directory in the place of the leaf's cgroup.procs refuses every write.
	require.NoError(t, os.MkdirAll(filepath.Join(f.root, mount, Leaf, "cgroup.procs"), 0o755))
	synctest.Test(t, func(t *testing.T) {
		_, err := f.Delegate("n1")
		require.ErrorContains(t, err, "8 (gone): is a directory")
	})
}
