package containers

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// write writes a file with its directories.
func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// TestUsage: images are counted of their owners' directories, and nothing that a user puts there beside them.
func TestUsage(t *testing.T) {
	root := t.TempDir()
	own := filepath.Join(root, storeDir, "images", strconv.Itoa(os.Getuid()))
	write(t, filepath.Join(own, "sha256-1.sqsh"), strings.Repeat("x", 100_000))
	write(t, filepath.Join(own, "sha256-2.sqsh"), "y")
	write(t, filepath.Join(own, "refs", "name"), "z")
	write(t, filepath.Join(own, "sha256-3.pull", "layer"), "z")
	large := filepath.Join(root, "large")
	write(t, large, strings.Repeat("x", 1_000_000))
	require.NoError(t, os.Symlink(large, filepath.Join(own, "link.sqsh")))
	require.NoError(t, os.Link(large, filepath.Join(own, "twice.sqsh")))
	require.NoError(t, os.Truncate(filepath.Join(own, "sha256-2.sqsh"), 1<<40)) // a file with a hole
	require.NoError(t, os.Mkdir(filepath.Join(own, "dir.sqsh"), 0o755))
	write(t, filepath.Join(root, storeDir, "images", "7777777", "sha256-1.sqsh"), "of nobody's") // another one's
	require.NoError(t, os.Symlink(own, filepath.Join(root, storeDir, "images", "8888")))
	write(t, filepath.Join(root, storeDir, "images", "a name", "sha256-1.sqsh"), "x")

	for pid, one := range map[string][2]string{
		"10": {"slurmlet-contai\n", "/usr/local/bin/slurmlet-container\x00hold\x00"},
		"11": {"slurmlet-contai\n", "/proc/self/exe\x00hold\x00"},
		"12": {"slurmlet-contai\n", "/usr/local/bin/slurmlet-container\x00enter\x00--store=hold\x00"},
		"13": {"sleep\n", "sleep\x00hold\x00"},
		"14": {"slurmlet-contai\n", ""}, // a zombie
	} {
		write(t, filepath.Join(root, "proc", pid, "comm"), one[0])
		write(t, filepath.Join(root, "proc", pid, "cmdline"), one[1])
	}
	write(t, filepath.Join(root, "proc", "self", "comm"), "slurmlet-contai\n")

	s := &Store{Root: root}
	u := s.Look()
	assert.Equal(t, 2, u.Running)
	assert.Equal(t, 2, u.Images)
	assert.InDelta(t, 110_000, u.ImageBytes, 20_000)
	assert.Positive(t, u.Free)
	assert.False(t, u.Uncounted)
	assert.Regexp(t, `^2 run; 2 images with 0.0 GB, and [0-9.]+ GB are free$`, u.String())
	assert.Same(t, u, s.Look(), "it does not look again so soon")
}

// TestUsageIsBounded: a user with very many names has the agent look at no more than it looks at.
func TestUsageIsBounded(t *testing.T) {
	root := t.TempDir()
	own := filepath.Join(root, storeDir, "images", strconv.Itoa(os.Getuid()))
	require.NoError(t, os.MkdirAll(own, 0o755))
	for i := range mostEntries + 10 {
		f, err := os.Create(filepath.Join(own, fmt.Sprint(i, ".sqsh")))
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	u := (&Store{Root: root}).Look()
	assert.Equal(t, mostEntries, u.Images)
	assert.True(t, u.Uncounted)
	assert.Contains(t, u.String(), "4096 images or more")
}

// TestNoStore: a node where no step has run.
func TestNoStore(t *testing.T) {
	assert.Equal(t, &Usage{}, (&Store{Root: t.TempDir()}).Look())
}
