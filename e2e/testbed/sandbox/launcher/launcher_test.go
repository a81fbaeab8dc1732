package launcher

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestLauncherIsOneProcessForEver(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	require.NoError(t, cmd.Start())
	l, err := found(cmd.Process.Pid)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, l.write(dir))

	found, err := Read(dir)
	require.NoError(t, err)
	assert.True(t, found.Alive())
	assert.False(t, (&Launcher{PID: l.PID, start: 1}).Alive(), "another process with that pid")
	require.NoError(t, (&Launcher{PID: l.PID, start: 1}).Kill())
	assert.True(t, found.Alive(), "it is not ours to kill")

	require.NoError(t, found.Kill())
	assert.False(t, found.Alive(), "a zombie is not alive")
	_ = cmd.Wait()
	require.NoError(t, found.Kill(), "twice does no harm")
}

func TestNoLauncher(t *testing.T) {
	l, err := Read(t.TempDir())
	require.NoError(t, err)
	assert.Nil(t, l)
}

func TestTracesFindThisProcess(t *testing.T) {
	ns, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	assert.NotEmpty(t, Traces{namespaces: []string{ns}}.Left())
	assert.Empty(t, Traces{namespaces: []string{"net:[1]"}}.Left())
}

func TestTracesFindDirectories(t *testing.T) {
	dir := t.TempDir()
	assert.Equal(t, []string{"directory " + dir}, Traces{Paths: []string{dir, dir + "/none"}}.Left())
}

// TestTracesOfAZombie: a process that has ended is gone, though nobody has waited for it yet.
func TestTracesOfAZombie(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	if err := cmd.Start(); errors.Is(err, unix.EPERM) {
		t.Skip("namespaces need root")
	} else {
		require.NoError(t, err)
	}
	l, err := found(cmd.Process.Pid)
	require.NoError(t, err)
	close(l.Ended) // nobody waits for it
	traces := l.Traces()
	require.NotEmpty(t, traces.Left())
	require.NoError(t, l.Kill())
	assert.Empty(t, traces.Left())
	_ = cmd.Wait()
}
