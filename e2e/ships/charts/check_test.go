package charts

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the chart renders is what `helm template … | slurmlet check -` finds nothing in.
func TestCheckFindsNothingInWhatIsRendered(t *testing.T) {
	helm, slurmlet := helmProgram(t), filepath.Join(t.TempDir(), "slurmlet")
	out, err := exec.Command("go", "build", "-o", slurmlet, "github.com/slurmlet/slurmlet/cmd/slurmlet").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, set := range append(valueSets(t, chart), chart+"/values.yaml") {
		t.Run(filepath.Base(set), func(t *testing.T) {
			manifests, err := exec.CommandContext(t.Context(), helm, "template", "slurm", chart, "--set", "image.registry=registry.example/slurmlet", "--values", set).Output()
			require.NoError(t, err)
			for _, version := range []string{"24.11", "26.05"} {
				check := exec.CommandContext(t.Context(), slurmlet, "check", "-slurm-version", version, "-")
				check.Stdin = bytes.NewReader(manifests)
				out, err := check.CombinedOutput()
				assert.NoError(t, err, version)
				assert.Empty(t, string(out), version)
			}
		})
	}
}
