package papers

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPagesAreNear: three clicks lead from README.md to every page for people. Notes and figures may be further.
func TestPagesAreNear(t *testing.T) {
	all := readAll(t)
	pages := map[string]Paper{}
	for _, p := range all {
		pages[p.Path] = p
	}
	clicks, queue := map[string]int{"README.md": 0}, []string{"README.md"}
	for ; len(queue) > 0; queue = queue[1:] {
		from := queue[0]
		for _, m := range link.FindAllStringSubmatch(strings.Join(pages[from].Lines, "\n"), -1) {
			to, _, _ := strings.Cut(m[1], "#")
			to = path.Join(path.Dir(from), to)
			_, isPage := pages[to]
			if _, seen := clicks[to]; isPage && !seen {
				clicks[to] = clicks[from] + 1
				queue = append(queue, to)
			}
		}
	}
	for name := range pages {
		if strings.HasPrefix(name, "docs/") && !strings.HasPrefix(name, "docs/design/notes/") {
			n, reached := clicks[name]
			assert.True(t, reached && n <= 3, "%s is %d clicks away from README.md, and reached: %t", name, n, reached)
		}
	}
}

// TestReasonsAreTheAgents: the reasons that the page quotes are in the agent's code.
func TestReasonsAreTheAgents(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "run", "waiting.md"))
	require.NoError(t, err)
	var code strings.Builder
	for _, dir := range []string{"agent", "internal/*", "internal/*/*"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if text, err := os.ReadFile(file); !strings.HasSuffix(file, "_test.go") {
				require.NoError(t, err)
				code.Write(text)
			}
		}
	}
	_, reasons, found := strings.Cut(string(page), "## Reasons")
	require.True(t, found)
	quoted := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(reasons, -1)
	require.Greater(t, len(quoted), 8)
	for _, m := range quoted {
		assert.Contains(t, code.String(), m[1])
	}
}
