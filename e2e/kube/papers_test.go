//go:build e2e

package kube

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/e2e/papers"
)

// papersCommands runs the commands that the papers give for a cluster of
// `make kube-up`. They leave it as it is.
func papersCommands(t *testing.T, _ *cluster) {
	all, err := papers.ReadAll(repository("."))
	require.NoError(t, err)
	blocks := papers.Marked(all, "kube")
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		cmd := block.Command(t.Context())
		cmd.Dir = repository(".")
		cmd.Env = append(os.Environ(), "SLURMLET_SANDBOX_NAME="+bedName())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", block, out)
		t.Logf("%s%s", block.Text, out)
	}
}
