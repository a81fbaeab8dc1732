package devices

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// machine unpacks a whole machine: "-- path --" begins a file, "-> path" is a
// device node. PCI addresses cannot be file names in a Go module, and nodes
// cannot be in git.
func machine(t testing.TB, name string) FS {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	require.NoError(t, err)
	root, file := t.TempDir(), ""
	for line := range strings.Lines(string(text)) {
		title, isFile := strings.CutPrefix(line, "-- ")
		node, isNode := strings.CutPrefix(line, "-> ")
		switch {
		case isFile:
			file = below(t, root, strings.TrimSuffix(title, " --\n"))
			require.NoError(t, os.WriteFile(file, nil, 0o600))
		case isNode:
			file = ""
			require.NoError(t, os.Symlink("/dev/null", below(t, root, strings.TrimSpace(node))))
		case file != "":
			add(t, file, line)
		}
	}
	return NewFS(root)
}

func below(t testing.TB, root, path string) string {
	t.Helper()
	path = filepath.Join(root, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	return path
}

func add(t testing.TB, path, line string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString(line)
	require.NoError(t, err)
}
