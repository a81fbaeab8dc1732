package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOptions(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "slurmlet-sandbox")
	require.NoError(t, os.WriteFile(binary, nil, 0o700))

	o, err := Options{Binary: binary}.complete()
	require.NoError(t, err)
	assert.Equal(t, "default", o.Name)
	assert.Equal(t, defaultCPUs, o.CPUs)
	assert.Equal(t, filepath.Join(filepath.Dir(binary), "slurmlet"), o.Agent)

	t.Setenv(cpusVariable, "2")
	o, err = Options{Binary: binary}.complete()
	require.NoError(t, err)
	assert.Equal(t, 2, o.CPUs)
	o, err = Options{Binary: binary, CPUs: 1}.complete()
	require.NoError(t, err)
	assert.Equal(t, 1, o.CPUs)
}

func TestOptionsTellAllThatIsWrong(t *testing.T) {
	t.Setenv(cpusVariable, "many")
	_, err := Options{Name: "../a", Slurm: "22.05", Binary: "/nonexistent/slurmlet-sandbox"}.complete()
	for _, want := range []string{
		`sandbox name "../a": want a-z, 0-9 and -`, `no Slurm "22.05"; there are: 24.11 26.05`,
		"cpus 0 (SLURMLET_SANDBOX_CPUS): want 1 to 8", "cannot find slurmlet-sandbox",
	} {
		assert.ErrorContains(t, err, want)
	}
}
