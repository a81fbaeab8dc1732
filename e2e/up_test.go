//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/papers"
	"github.com/slurmlet/slurmlet/e2e/sandbox"
)

// TestUpAndDown runs the commands that README.md and OPERATIONS.md give for the
// sandbox, in their order, as a user would: from `make up` to `make down`.
func TestUpAndDown(t *testing.T) {
	t.Parallel()
	const name = "e2e-up"
	root := filepath.Dir(filepath.Dir(binary()))
	var blocks []papers.Block
	for _, path := range []string{"README.md", "OPERATIONS.md"} {
		p, err := papers.Read(root, path)
		require.NoError(t, err)
		blocks = append(blocks, papers.Marked([]papers.Paper{p}, "sandbox")...)
	}
	require.Greater(t, len(blocks), 2)
	assert.Equal(t, "make up\n", blocks[0].Text)
	assert.Equal(t, "make down\n", blocks[len(blocks)-1].Text)
	t.Cleanup(func() { _ = sandbox.Down(name) }) // when the test fails before `make down`
	run := func(t *testing.T, block papers.Block) string {
		cmd := block.Command(t.Context())
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "SLURMLET_SANDBOX_NAME="+name)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Logf("%s%s", block.Text, out)
		return string(out)
	}

	out := run(t, blocks[0])
	for _, want := range []string{"node-0", "node-1", "Ready", "idle", "COMPLETED", "200 OK", "make down"} {
		assert.Contains(t, out, want)
	}
	s, err := sandbox.Open(t.Context(), name)
	require.NoError(t, err)
	traces := s.Traces()
	s.Close()
	_, line, found := strings.Cut(out, "\n  ssh -i ")
	require.True(t, found, "%s", out)
	line, _, _ = strings.Cut(line, "\n")
	ssh := exec.CommandContext(t.Context(), "sh", "-c", "ssh -i "+line+" id -un")
	ssh.Dir = root
	answer, err := ssh.CombinedOutput()
	require.NoError(t, err, "%s", answer)
	assert.Equal(t, "alice\n", string(answer))

	for _, block := range blocks[1:] {
		if !t.Run(block.String(), func(t *testing.T) { run(t, block) }) {
			return // the others count on what this one does
		}
	}
	assert.Empty(t, traces.Left())
}
