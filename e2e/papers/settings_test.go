package papers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEverySettingIsDescribed: docs/reference/settings.md has the agent's environment variables,
// with the roles and defaults of agent/doc.go.
func TestEverySettingIsDescribed(t *testing.T) {
	settings, err := Settings(root)
	require.NoError(t, err)
	require.Contains(t, settings, Setting{"SLURMLET_CONTROLLER", "slurmd, login", "required"})
	p, err := Read(root, "docs/reference/settings.md")
	require.NoError(t, err)
	assert.Empty(t, p.Differences(settings))
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "agent"), 0o755))
	write := func(comment string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "agent", "doc.go"), []byte(comment+"package agent\n"), 0o644))
	}
	write("// Text\n//\tSLURMLET_A one (a, b: c) of (slurmd, login; default: 1)\n//\tSLURMLET_B two (default: SLURMLET_A)\n" +
		"//\tSLURMLET_C three (login: required)\n//\tSLURMLET_D four (login; default: 4)\n")
	want := []Setting{{"SLURMLET_A", "slurmd, login", "1"}, {"SLURMLET_B", "all", "SLURMLET_A"}, {"SLURMLET_C", "login", "required"}, {"SLURMLET_D", "login", "4"}}
	settings, err := Settings(dir)
	require.NoError(t, err)
	assert.Equal(t, want, settings)

	p := Paper{Path: "x.md", Lines: []string{
		"| variable | role | default | |", "| `SLURMLET_A` | slurmd | 1 | one |", "| `SLURMLET_B` | all | `SLURMLET_A` | two |",
		"| `SLURMLET_C` | login | none | three |", "| `SLURMLET_E` | all | 5 | five |",
	}}
	assert.Equal(t, []string{
		"x.md has SLURMLET_A | slurmd | 1, and agent/doc.go has SLURMLET_A | slurmd, login | 1",
		"x.md has SLURMLET_C | login | none, and agent/doc.go has SLURMLET_C | login | required",
		"x.md has no row for SLURMLET_D | login | 4",
		"x.md has SLURMLET_E | all | 5, and agent/doc.go does not",
	}, p.Differences(settings))

	write("//\tSLURMLET_A one (slurmd; default: 1)\n//\tSLURMLET_B two\n")
	_, err = Settings(dir)
	require.ErrorContains(t, err, "agent/doc.go: the line of SLURMLET_B does not end with the roles")
}
