package papers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWalks: the names that the papers walk through are where they say, the diagrams have no others, and the walks are
// short. It prints how long they are.
func TestWalks(t *testing.T) {
	type most struct{ files, packages int }
	for path, walks := range map[string]map[string]most{
		"docs/design/walks.md": {
			"The walk of a SIGTERM": {files: 7}, "The walk of an edit": {files: 12}, "The walk of a resize": {files: 10},
			"The walk of a webhook's review": {files: 12}, "The walk of a peer": {files: 12}, "The walk of an elastic node's start": {packages: 6},
		},
		"CONTRIBUTING.md": {
			"The walk of a new setting": {files: 4}, "The walk of a setting that people see": {files: 8}, "The walk of a new role": {files: 14}, "The walk of a new metric": {files: 10}, "The walk of a new version of Slurm": {files: 10},
			"The walk of a new rule of a check": {files: 3}, "The walk of something new on the stream": {files: 8},
		},
	} {
		p, err := Read(root, path)
		require.NoError(t, err)
		for heading, most := range walks {
			w, err := p.Walk(root, heading)
			require.NoError(t, err)
			t.Logf("%s: %s: %d files in %d packages", path, heading, len(w.Files), len(w.Packages()))
			assert.NotEmpty(t, w.Files, heading)
			if most.files > 0 {
				assert.LessOrEqual(t, len(w.Files), most.files, "%s: files %q", heading, w.Files)
			}
			if most.packages > 0 {
				assert.LessOrEqual(t, len(w.Packages()), most.packages, "%s: packages %q", heading, w.Packages())
			}
			assert.Empty(t, w.Wrong, heading)
			drawn := p.Drawn(heading)
			assert.Subset(t, w.Names, drawn, "%s: the diagram has functions that no step has", heading)
			if path == "docs/design/walks.md" {
				assert.NotEmpty(t, drawn, "%s: the walk has no diagram", heading)
			}
		}
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
	assert.Equal(t, Walk{Files: []string{"a.go", "b/b.go", "c.d/e-f.yaml"}, Names: []string{"one", "Two", "one", "Three", "four", "Five", "SEVEN", "eight", "of", "six", "five"}, Wrong: []string{"a.go has no Three", "b/b.go has no of", "c.d/e-f.yaml has no five"}}, w)
	assert.Equal(t, []string{".", "b", "c.d"}, w.Packages())
	drawn := Paper{Lines: []string{"## A", "```mermaid", "A->>B: it calls one() and two()", "```", "```text", "three()", "```", "## B", "```mermaid", "four()", "```"}}
	assert.Equal(t, []string{"one", "two"}, drawn.Drawn("A"))
}
