package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const dir = "../../charts/slurm/dashboards"

func TestTheFilesAreTheTables(t *testing.T) {
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, write(dir))
	}
	made := t.TempDir()
	require.NoError(t, write(made))
	want, have := contents(t, made), contents(t, dir)
	for name := range have {
		assert.Contains(t, want, name, "no table makes it: remove it")
	}
	for name, text := range want {
		if have[name] != text { // too long to be shown
			t.Errorf("%s is not what its table makes: make charts UPDATE=1 writes it", name)
		}
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	all := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		all[f.Name()] = string(text)
	}
	return all
}

// TestTables: no panel is wider than the screen, without a query, or without a title.
func TestTables(t *testing.T) {
	names := map[string]bool{}
	for _, d := range dashboards {
		assert.False(t, names[d.name], d.name)
		names[d.name] = true
		for _, r := range d.rows {
			for _, p := range r.panels {
				assert.NotEmpty(t, p.title, "%s, %s", d.name, r.title)
				assert.NotEmpty(t, p.queries, p.title)
				assert.True(t, p.width > 0 && p.width <= screen && p.height > 0, "%s: %d wide, %d high", p.title, p.width, p.height)
				assert.True(t, p.kind == table || p.unit != "", "%s has no unit", p.title)
			}
		}
	}
}
