package slurmconf_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/slurmconf"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The configurations in testdata, and in their files want what Slurm makes of
// them: that is what Slurm's own parser says (24.11 and 26.05).
func TestCorpus(t *testing.T) {
	for _, name := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", name)
			set, findings := slurmconf.Read(slurmconf.Dir(dir))
			assert.NoError(t, findings.Err())

			text := sets(set)
			for _, f := range findings {
				text += f.Error() + "\n"
			}
			golden := filepath.Join(dir, "want")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(text), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), text)

			for _, f := range set.Files {
				content, err := os.ReadFile(filepath.Join(dir, f.Name))
				require.NoError(t, err)
				assert.Equal(t, string(content), f.String())
			}
		})
	}
}

// corpus is the directories of testdata.
func corpus(t *testing.T) []string {
	entries, err := os.ReadDir("testdata")
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "fuzz" {
			names = append(names, e.Name())
		}
	}
	require.Greater(t, len(names), 11)
	return names
}

// sets is what a configuration sets, in Slurm's order.
func sets(s *slurmconf.Set) string {
	var b strings.Builder
	for _, kind := range slurmconf.Kinds {
		for l := range s.Conf(kind).Lines() {
			b.WriteString(l.Position().String() + ":")
			for _, p := range l.Pairs {
				b.WriteString(" " + p.Key + "=[" + p.Value + "]")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
