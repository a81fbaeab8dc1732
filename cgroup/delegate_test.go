package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A plain directory does not move processes out of cgroup.procs: it is the
// base in which some always stay. Real cgroups are in the e2e tests.
func TestDelegateGivesUpOnABaseThatIsNeverEmpty(t *testing.T) {
	f := tree(t, machine("/", map[string]string{"cgroup.procs": "1\n0\n", "slurmlet/cgroup.procs": ""}))
	_, err := f.Delegate("n1")
	require.ErrorContains(t, err, "processes stay in it after 100 rounds")
}

func TestDelegate(t *testing.T) {
	f := tree(t, machine("/slurmlet", map[string]string{
		"cgroup.procs": "", "slurmlet/cgroup.procs": "1\n", "cgroup.subtree_control": "",
		"system.slice/cgroup.controllers": "memory\n",
	}))
	d, err := f.Delegate("n1")
	require.NoError(t, err)
	require.Equal(t, "/sys/fs/cgroup", d.Base)
	require.Equal(t, "/sys/fs/cgroup/system.slice/n1_slurmstepd.scope", d.Steps)
	require.Equal(t, Writable, d.Way)
	// The plain file holds what was written last, where the kernel would add.
	written, err := os.ReadFile(filepath.Join(f.root, mount, "cgroup.subtree_control"))
	require.NoError(t, err)
	require.Equal(t, "+pids", string(written))
	require.DirExists(t, filepath.Join(f.root, mount, "system.slice/n1_slurmstepd.scope"))
}

func TestDelegateWithoutAWritableTree(t *testing.T) {
	_, err := NewFS(t.TempDir()).Delegate("n1")
	require.ErrorIs(t, err, ErrNotUnified)
}
