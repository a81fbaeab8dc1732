package papers

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	statusLine = regexp.MustCompile(`(?m)^//\t(\d+)  `)
	statusRow  = regexp.MustCompile(`(?m)^\| (\d+) \|`)
)

// TestEveryExitStatusIsDescribed: docs/reference/status.md has the exit statuses of agent/doc.go, in their order.
func TestEveryExitStatusIsDescribed(t *testing.T) {
	comment, err := os.ReadFile(filepath.Join(root, "agent", "doc.go"))
	require.NoError(t, err)
	_, listed, found := strings.Cut(string(comment), "\n// # Exit status\n")
	require.True(t, found)
	p, err := Read(root, "docs/reference/status.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(strings.Join(p.Lines, "\n"), "\n| exit status |")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	want := firsts(statusLine, listed)
	require.Contains(t, want, "78")
	assert.Equal(t, want, firsts(statusRow, table))
}

// firsts are the first groups of all matches.
func firsts(pattern *regexp.Regexp, text string) (all []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}
