package exitcode

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/reference/status.md")

// TestReference holds the table of docs/reference/status.md to the comments of the constants, or writes it.
func TestReference(t *testing.T) {
	const path = "../../../docs/reference/status.md"
	const head, last = "| exit status | meaning |\n|---|---|\n", "| another |"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before, table, found := strings.Cut(string(text), head)
	require.True(t, found)
	have, after, found := strings.Cut(table, last)
	require.True(t, found)
	want := rows(t)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+head+want+last+after), 0o644))
		return
	}
	require.Equal(t, want, have, "exitcode.go (expected) and %s (actual); -update writes it", path)
}

// rows are those of the statuses, in their order.
func rows(t *testing.T) string {
	file, err := parser.ParseFile(token.NewFileSet(), "exitcode.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var all strings.Builder
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is {
			return true
		}
		value, is := spec.Values[0].(*ast.BasicLit)
		if !is {
			return true
		}
		text := strings.Join(strings.Fields(spec.Doc.Text()), " ")
		_, meaning, found := strings.Cut(text, spec.Names[0].Name+" says that ")
		require.True(t, found, "the comment of %s begins with %q", spec.Names[0].Name, spec.Names[0].Name+" says that")
		fmt.Fprintf(&all, "| %s | %s |\n", value.Value, meaning)
		return true
	})
	return all.String()
}
