package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReclaim: what slurmd 24.11 with IgnoreSystemd=yes has moved is back, what it has
// left is gone, and a step stays where it is.
func TestReclaim(t *testing.T) {
	scope := realScope(t)
	top := filepath.Dir(filepath.Dir(scope))
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "sys/fs"), 0o755))
	require.NoError(t, os.Symlink(top, filepath.Join(root, "sys/fs/cgroup")))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "proc/1"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "proc/1/cgroup"), []byte("0::/slurmlet/system/system\n"), 0o644))
	wandered := filepath.Join(top, "slurmlet/system.slice/n1_slurmstepd.scope")
	makeCgroups(t, filepath.Join(top, "slurmlet/system/system"))
	makeCgroups(t, wandered, "slurmd/system", "job_7/step_0/user")
	makeCgroups(t, scope, "slurmd/system", "system", "job_3/step_batch/slurm")
	stands := map[string]string{
		"slurmlet/system/system": "slurmlet", "slurmlet/system": "slurmlet", "slurmlet": "slurmlet",
		"slurmlet/system.slice/n1_slurmstepd.scope/job_7/step_0/user": "", "system.slice/n1_slurmstepd.scope/job_3/step_batch/slurm": "",
	}
	pids := map[string]string{}
	for dir := range stands {
		pids[dir] = standIn(t, filepath.Join(top, dir))
	}

	d := Delegation{Base: "/sys/fs/cgroup", Steps: "/sys/fs/cgroup/system.slice/n1_slurmstepd.scope"}
	require.NoError(t, NewFS(root).Reclaim(d))
	for from, to := range stands {
		if to == "" {
			to = from
		}
		now, err := processes(filepath.Join(top, to))
		require.NoError(t, err)
		assert.Contains(t, now, pids[from], from)
	}
	for _, gone := range []string{"slurmlet/system", "slurmlet/system.slice/n1_slurmstepd.scope/slurmd", "system.slice/n1_slurmstepd.scope/slurmd"} {
		assert.NoDirExists(t, filepath.Join(top, gone))
	}
	assert.DirExists(t, filepath.Join(scope, "system"), "slurmstepd goes there when its step ends")
	require.NoError(t, NewFS(root).Reclaim(Delegation{}), "nothing was handed over")
}

// standIn has a process in a cgroup, until the test's end.
func standIn(t *testing.T, dir string) (pid string) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	pid = fmt.Sprint(cmd.Process.Pid)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(pid), 0))
	return pid
}
