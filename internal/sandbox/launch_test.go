package sandbox

import (
	"os"
	"os/exec"
	"testing"

	"github.com/slurmlet/slurmlet/internal/sandbox/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLauncherIsOneProcessForEver(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	require.NoError(t, cmd.Start())
	l := &launcher{pid: cmd.Process.Pid}
	dir := t.TempDir()
	require.NoError(t, l.write(dir))

	found, err := readLauncher(dir)
	require.NoError(t, err)
	assert.True(t, found.alive())
	assert.False(t, (&launcher{pid: l.pid, start: "1"}).alive(), "another process with that pid")
	require.NoError(t, (&launcher{pid: l.pid, start: "1"}).kill())
	assert.True(t, found.alive(), "it is not ours to kill")

	require.NoError(t, found.kill())
	assert.False(t, found.alive(), "a zombie is not alive")
	_ = cmd.Wait()
	require.NoError(t, found.kill(), "twice does no harm")
}

func TestNoLauncher(t *testing.T) {
	l, err := readLauncher(t.TempDir())
	require.NoError(t, err)
	assert.Nil(t, l)
}

func TestKernelArgs(t *testing.T) {
	args := kernelArgs("/run/s/boot", server.Settings{CPUs: 2, Memory: 4096})
	assert.Subset(t, args, []string{"mem=4096M", "ncpus=2", "rootfstype=hostfs", "rootflags=/run/s/boot", "init=/init", "seccomp=on", "vec0:transport=raw,ifname=v0,gro=1"})
}

func TestTracesFindThisProcess(t *testing.T) {
	ns, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	assert.NotEmpty(t, Traces{name: "no-such", namespaces: []string{ns}}.Left())
	assert.Empty(t, Traces{name: "no-such", namespaces: []string{"net:[1]"}}.Left())
}
