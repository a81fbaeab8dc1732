package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/process"
)

func TestLastWords(t *testing.T) {
	for _, c := range []struct {
		name, written string
		want          []string
	}{
		{"nothing", "", nil},
		{"lines", "error: one\n\ntwo\n", []string{"one", "", "two"}},
		{"words that no newline follows", "one\ntwo", []string{"one", "two"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var have []string
			a := &Agent{Options: Options{Observe: func(n Notice) { have = append(have, n.Text) }}}
			var err error
			a.output, err = process.NewOutput("slurmd", a.heard)
			require.NoError(t, err)
			_, err = a.output.File().WriteString(c.written)
			require.NoError(t, err)

			a.lastWords() // by now everything was heard, so have may be read
			require.Equal(t, c.want, have)

			require.NoError(t, a.output.Close())
			<-a.output.Drained()
			require.Equal(t, c.want, have, "the mark is nobody's words")
		})
	}
}
