package releases

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables of docs/run/versions.md")

// TestPage holds the tables of docs/run/versions.md to those of this package, or writes them.
func TestPage(t *testing.T) {
	const path = "../../../docs/run/versions.md"
	var faults, all strings.Builder
	for _, a := range advisories {
		where := strings.Join(a.Fixed, ", ")
		if a.only != "" {
			where = "known in " + a.only + " alone"
		}
		fmt.Fprintf(&faults, "| %s | %s | %s | %s |\n", a.Name, a.Kind, a.What, where)
	}
	for _, l := range lines {
		fmt.Fprintf(&all, "| %s | %s | %s | %s |\n", l.name, l.end, l.from, strings.Join(Reachable(l.name), ", "))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	want := withTable(t, string(text), "| name | kind | what it does | mended in |\n|---|---|---|---|\n", faults.String())
	want = withTable(t, want, "| line | mended by SchedMD until | takes from | reaches in one step |\n|---|---|---|---|\n", all.String())
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(text), "%s; -update writes it", path)
}

// withTable puts rows below the head of a table, in the place of those that are there.
func withTable(t *testing.T, text, head, rows string) string {
	before, after, found := strings.Cut(text, head)
	require.True(t, found, head)
	_, rest, found := strings.Cut("\n"+after, "\n\n")
	require.True(t, found)
	return before + head + rows + "\n" + rest
}

// TestImages: images/assert-slurm asks for versions in which no fault is left that their line has mended.
func TestImages(t *testing.T) {
	script, err := os.ReadFile("../../../images/assert-slurm")
	require.NoError(t, err)
	found := regexp.MustCompile(`least='([^']+)'`).FindAllStringSubmatch(string(script), -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		v, err := Parse(m[1])
		require.NoError(t, err)
		for _, a := range advisories {
			for _, text := range a.Fixed {
				fixed, err := Parse(text)
				require.NoError(t, err)
				require.False(t, a.affects(v) && fixed.Line == v.Line, "%s has %s, which %s mends", v, a.Name, text)
			}
		}
	}
}
