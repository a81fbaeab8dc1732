package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSecurity: SECURITY.md names tests and files that there are.
func TestSecurity(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	require.NoError(t, err)
	var tests strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			var source []byte
			source, err = os.ReadFile(path)
			tests.Write(source)
		}
		return err
	}))
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z]+)`").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(named), 15)
	for _, test := range named {
		require.Contains(t, tests.String(), "func "+test[1]+"(", "SECURITY.md")
	}
	for _, path := range regexp.MustCompile(`e2e/[a-z_./]+[a-z]`).FindAllString(string(text), -1) {
		_, err := os.Stat(filepath.Join(root, path))
		require.NoError(t, err)
	}
}
