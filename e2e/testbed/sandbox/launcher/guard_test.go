package launcher

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// guarded is set where this program is a guard: of that directory.
const guarded = "LAUNCHER_TEST_GUARDED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(guarded); dir != "" {
		os.Exit(RunGuard(dir, func() error { return os.RemoveAll(dir) }))
	}
	os.Exit(m.Run())
}

func TestGuard(t *testing.T) {
	for name, c := range map[string]struct {
		before func(t *testing.T, dir string)
		stays  bool
	}{
		"the sandbox goes with the process": {before: func(*testing.T, string) {}},
		"another has its name": {stays: true, before: func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(dir, dir+".former"))
			require.NoError(t, os.Mkdir(dir, 0o700))
		}},
		"it is down already": {before: func(t *testing.T, dir string) { require.NoError(t, os.Remove(dir)) }},
	} {
		t.Run(name, func(t *testing.T) {
			process, guard, dir := guardedProcess(t)
			c.before(t, dir)
			require.NoError(t, process.Kill())
			assert.NoError(t, guard.cmd.Wait())
			_, err := os.Stat(dir)
			assert.Equal(t, c.stays, err == nil, "%v", err)
		})
	}
}

func TestGuardIsStopped(t *testing.T) {
	process, guard, dir := guardedProcess(t)
	guard.Stop()
	require.NoError(t, process.Kill())
	assert.DirExists(t, dir)
	assert.ErrorIs(t, guard.cmd.Process.Signal(os.Kill), os.ErrProcessDone)
	(*Guard)(nil).Stop()
}

func TestGuardOfNoProcess(t *testing.T) {
	_, err := StartGuard(exec.Command("true"), t.TempDir(), 1<<30)
	assert.ErrorContains(t, err, "cannot watch process 1073741824")
}

// guardedProcess is a process, and a guard that removes a directory when it has ended.
func guardedProcess(t *testing.T) (*os.Process, *Guard, string) {
	sleep := exec.Command("sleep", "60")
	require.NoError(t, sleep.Start())
	t.Cleanup(func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
	dir := filepath.Join(t.TempDir(), "sandbox")
	require.NoError(t, os.Mkdir(dir, 0o700))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), guarded+"="+dir)
	guard, err := StartGuard(cmd, dir, sleep.Process.Pid)
	require.NoError(t, err)
	t.Cleanup(guard.Stop)
	return sleep.Process, guard, dir
}
