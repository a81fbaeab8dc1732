//go:build e2e

package e2e

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOracle asks real Slurm about some of the cases of slurmconf/check and some
// mutations, the same ones each time; "make oracle" asks about all, and draws others.
func TestOracle(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "oracle")
	out, err := exec.Command("go", "build", "-o", program, "./oracle").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.CommandContext(t.Context(), program, "-sample", strconv.Itoa(rounds(20, 60)), "-mutations", strconv.Itoa(rounds(20, 60)), "-seed", "1")
	cmd.Dir = ".." // where the cases are
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}
