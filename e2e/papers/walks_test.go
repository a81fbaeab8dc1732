package papers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWalks: the names that CONTRIBUTING.md walks through are where it says,
// and the walks are short.
func TestWalks(t *testing.T) {
	p, err := Read(root, "CONTRIBUTING.md")
	require.NoError(t, err)
	for heading, most := range map[string]int{"The walk of a SIGTERM": 7, "The walk of an edit": 12, "The walk of a new setting": 14, "The walk of a new metric": 10, "The walk of a new version of Slurm": 10} {
		w, err := p.Walk(root, heading)
		require.NoError(t, err)
		assert.NotEmpty(t, w.Files, heading)
		assert.LessOrEqual(t, len(w.Files), most, heading)
		assert.Empty(t, w.Wrong, heading)
	}
}

func TestWalk(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.go": "func one() {\n", "b/b.go": "func (a *A) Two(x int) {\n}\n\nvar four = one()\n\ntype Five struct {\n}\n\n//\tSEVEN  of all\nvar all = []x{\n\t{\"eight\", 8},\n", "c.d/e-f.yaml": "six: {}\n"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	p := Paper{Lines: []string{"## Other", "1. `none` (c.go)", "## The walk", "", "1. `one` (a.go) calls", "   `Two` (b/b.go).", "2. `one`, `Three` (a.go)", "3. `four`, `Five`, `SEVEN`, `eight` and `of` (b/b.go), then `six` and `five` (c.d/e-f.yaml)"}}
	w, err := p.Walk(dir, "The walk")
	require.NoError(t, err)
	assert.Equal(t, Walk{Files: []string{"a.go", "b/b.go", "c.d/e-f.yaml"}, Wrong: []string{"a.go has no Three", "b/b.go has no of", "c.d/e-f.yaml has no five"}}, w)
}
