//go:build e2e

package e2e

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/launcher"
)

// TestScale has everything happen to a small cluster, natively; "make scale" does it with
// 500 nodes.
func TestScale(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "scale")
	out, err := exec.Command("go", "build", "-o", program, "./figures/scale").CombinedOutput()
	require.NoError(t, err, "%s", out)
	slurmlet := filepath.Join(filepath.Dir(binary()), "slurmlet")
	arguments := []string{"-nodes", strconv.Itoa(rounds(4, 30)), "-do", "edit,ends,drain", "-slurm", "24.11", "-slurmlet", slurmlet}

	t.Run("an edit and mass ends", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), program, arguments...).CombinedOutput()
		t.Logf("%s", out)
		require.NoError(t, err)
	})
	t.Run("a network of IPv6 alone", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), program, "-nodes", "4", "-jobs", "2", "-ipv6", "-do", "drain", "-slurm", "24.11", "-slurmlet", slurmlet).CombinedOutput()
		t.Logf("%s", out)
		require.NoError(t, err)
	})
	t.Run("a run that is killed leaves nothing", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), program, arguments...)
		said, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(said)
		require.True(t, lines.Scan(), "it says how many nodes are Ready")
		traces := inner(t, cmd.Process.Pid).Traces()
		require.NotEmpty(t, traces.Processes())
		require.NoError(t, cmd.Process.Signal(unix.SIGKILL))
		assert.Error(t, cmd.Wait())
		until(t, "nothing is left", func() (bool, string) {
			left := traces.Left()
			return len(left) == 0, strings.Join(left, "\n")
		})
	})
}

// inner is the process in namespaces of its own that a program has started.
func inner(t *testing.T, pid int) *launcher.Launcher {
	t.Helper()
	all, err := procfs.AllProcs()
	require.NoError(t, err)
	for _, p := range all {
		if stat, err := p.Stat(); err == nil && stat.PPID == pid { // one that has ended has none
			return &launcher.Launcher{PID: p.PID}
		}
	}
	require.Fail(t, "it has started no process")
	return nil
}
