package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSessions: a session's cgroup gets its process and what that has started, however it is named, and goes when it is empty.
func TestSessions(t *testing.T) {
	root := t.TempDir()
	f, d := NewFS(root), Delegation{Base: "/sys/fs/cgroup"}
	for pid, parent := range map[int]int{1: 0, 7: 1, 70: 7, 71: 7, 700: 70, 8: 1, 80: 8} {
		dir := filepath.Join(root, "proc", fmt.Sprint(pid))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "stat"), fmt.Appendf(nil, "%d (a ) b) S %d 1 1", pid, parent), 0o644))
	}
	require.ElementsMatch(t, []int{7, 70, 71, 700}, f.descendants(7))

	all := filepath.Join(root, d.Base, Sessions)
	procs := filepath.Join(all, "7", "cgroup.procs")
	require.NoError(t, os.MkdirAll(filepath.Dir(procs), 0o755))
	require.NoError(t, os.WriteFile(procs, nil, 0o644))
	require.NoError(t, f.BeginSession(d, 7))
	require.NoError(t, os.Mkdir(filepath.Join(all, "8"), 0o755))
	f.EndSessions(d)
	require.NoDirExists(t, filepath.Join(all, "8"))
	require.DirExists(t, filepath.Join(all, "7"), "a process is left there")
	require.ErrorContains(t, f.BeginSession(d, 9), "cannot move a session")
}
