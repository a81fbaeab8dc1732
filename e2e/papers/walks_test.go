package papers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWalks: the functions that CONTRIBUTING.md walks through are where it says,
// and the walks are short.
func TestWalks(t *testing.T) {
	p, err := Read(root, "CONTRIBUTING.md")
	require.NoError(t, err)
	for heading, most := range map[string]int{"The walk of a SIGTERM": 7, "The walk of an edit": 12} {
		w, err := p.Walk(root, heading)
		require.NoError(t, err)
		assert.NotEmpty(t, w.Files, heading)
		assert.LessOrEqual(t, len(w.Files), most, heading)
		assert.Empty(t, w.Wrong, heading)
	}
}

func TestWalk(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.go": "func one() {\n", "b/b.go": "func (a *A) Two(x int) {\n"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	p := Paper{Lines: []string{"## Other", "1. `none` (c.go)", "## The walk", "", "1. `one` (a.go) calls", "   `Two` (b/b.go).", "2. `one`, `Three` (a.go)"}}
	w, err := p.Walk(dir, "The walk")
	require.NoError(t, err)
	assert.Equal(t, Walk{Files: []string{"a.go", "b/b.go"}, Wrong: []string{"a.go has no function Three"}}, w)
}
