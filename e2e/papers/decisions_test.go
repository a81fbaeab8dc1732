package papers

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the index of the decisions anew")

// TestDecisions: each number is there once, and the index has each decision with its status.
func TestDecisions(t *testing.T) {
	all, err := ReadDecisions(root)
	require.NoError(t, err)
	require.Greater(t, len(all), 300)
	require.Empty(t, MisplacedDecisions(all))
	if *update {
		require.NoError(t, WriteDecisionIndex(root, all))
	}
	index, err := os.ReadFile(filepath.Join(root, decisions, "README.md"))
	require.NoError(t, err)
	assert.Equal(t, DecisionIndex(all), string(index), "run go test ./e2e/papers -run TestDecisions -update")
}

func TestReadDecisions(t *testing.T) {
	for name, c := range map[string]struct {
		page, err string
		faults    []string
	}{
		"two":               {"## 1. One\nText.\n\n## 2. Two\nStatus: withdrawn.\n\nText.\n", "", nil},
		"replaced":          {"## 1. One\nStatus: replaced by 2.\n\n## 2. Two\n", "", nil},
		"by none":           {"## 1. One\nStatus: changed by 3.\n\n## 2. Two\n", "", []string{"a.md: number 1 cannot be changed by 3"}},
		"by an earlier one": {"## 1. One\n## 2. Two\nStatus: changed by 1.\n", "", []string{"a.md: number 2 cannot be changed by 1"}},
		"twice":             {"## 1. One\n## 1. Two\n## 2. Three\n", "", []string{"a.md: number 1 is there twice"}},
		"a gap":             {"## 1. One\n## 3. Three\n", "", []string{"no decision has number 2"}},
		"no number":         {"## One\n", "a.md:3: \"## One\" is no decision", nil},
		"another status":    {"## 1. One\nStatus: old.\n", "a.md:4: want \"Status: changed by 12.\"", nil},
		"a status below":    {"## 1. One\nText.\nStatus: withdrawn.\n", "a.md:5: want", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, decisions+"/a.md", "# Decisions: A\n\n"+c.page)
			all, err := ReadDecisions(dir)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "A", all[0].Area)
			assert.Equal(t, c.faults, MisplacedDecisions(all))
		})
	}
}
