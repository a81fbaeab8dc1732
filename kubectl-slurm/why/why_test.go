package why

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the answers in testdata anew")

// runner is one as the program makes it.
var runner = Runner{Slurm: []string{"kubectl", "exec", "-n", "slurm", "slurm-slurmctld-0", "-c", "slurmctld", "--"}, Namespace: "slurm"}

// TestAnswers: facts that were collected of real clusters (e2e, with -facts) lead to the answers beside them.
func TestAnswers(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var facts Facts
			require.NoError(t, json.Unmarshal(text, &facts))
			var said strings.Builder
			Judge(facts).WriteText(&said, runner)
			golden := strings.TrimSuffix(file, ".json") + ".txt"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(said.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), said.String())
		})
	}
}
