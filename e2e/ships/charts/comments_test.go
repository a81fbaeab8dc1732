package charts

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCommentsHaveOnePathOfScripts: whatever tells of slurm.files names slurmctld's copy, which an edit replaces whole.
func TestCommentsHaveOnePathOfScripts(t *testing.T) {
	files, err := filepath.Glob(chart + "/templates/*")
	require.NoError(t, err)
	files = append(files, chart+"/values.yaml", chart+"/README.md")
	path := regexp.MustCompile(`PrologSlurmctld=(/\S*/)<file>`)
	found := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if filepath.Base(name) == "tests" {
			continue
		}
		require.NoError(t, err)
		for _, m := range path.FindAllStringSubmatch(string(text), -1) {
			found++
			assert.Equal(t, "/run/slurmlet/conf/", m[1], name)
		}
	}
	assert.GreaterOrEqual(t, found, 2)
}
