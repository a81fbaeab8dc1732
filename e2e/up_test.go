//go:build e2e

package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/sandbox"
)

// TestUpAndDown is "make up" and "make down" as a user has them.
func TestUpAndDown(t *testing.T) {
	const name = "e2e-up"
	out, err := exec.CommandContext(t.Context(), binary(), "up", "-name", name).CombinedOutput()
	t.Cleanup(func() { _ = sandbox.Down(name) }) // when the test fails before its own
	require.NoError(t, err, "%s", out)
	s, err := sandbox.Open(t.Context(), name)
	require.NoError(t, err)
	traces := s.Traces()
	s.Close()
	for _, want := range []string{"node-0", "node-1", "Ready", "idle", "COMPLETED", "200 OK", "make down"} {
		assert.Contains(t, string(out), want)
	}
	t.Logf("%s", out)

	_, line, found := strings.Cut(string(out), "\n  ssh -i ")
	require.True(t, found, "%s", out)
	line, _, _ = strings.Cut(line, "\n")
	out, err = exec.CommandContext(t.Context(), "sh", "-c", "ssh -i "+line+" id -un").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "alice\n", string(out))

	out, err = exec.CommandContext(t.Context(), binary(), "exec", "-name", name, "login", "srun", "-N2", "hostname").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.CommandContext(t.Context(), binary(), "down", "-name", name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Empty(t, traces.Left())
}
