package papers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
)

// TestDeadlinesAreRight: the papers have the times that the agent computes.
func TestDeadlinesAreRight(t *testing.T) {
	graces := []time.Duration{30 * time.Second, 10 * time.Minute, 24 * time.Hour}

	rows, err := Deadlines(root)
	require.NoError(t, err)
	var want [][3]time.Duration
	for i, grace := range graces {
		w := deadlines.New(grace, 0)
		for j, at := range []time.Duration{w.Requeue, w.Kill, w.Fail, w.Leave, w.Stop, w.End, w.Exit} {
			if i == 0 {
				want = append(want, [3]time.Duration{})
			}
			want[j][i] = at.Round(10 * time.Millisecond)
		}
	}
	assert.Equal(t, want, rows, "the table of docs/reference/end.md (actual) has requeue, kill, fail, leave, stop, end and exit by deadlines.New (expected)")

	rows = nil
	for _, path := range []string{"docs/run/delete-a-pod.md", "docs/develop/sandbox.md"} {
		p, err := Read(root, path)
		require.NoError(t, err)
		more, err := p.Deadlines()
		require.NoError(t, err)
		rows = append(rows, more...)
	}
	want = nil
	// the last is the quick start's, in a sentence
	for _, grace := range []time.Duration{30 * time.Second, 10 * time.Minute, 20 * time.Minute, 24 * time.Hour, 30 * time.Second} {
		jobs := deadlines.New(grace, 0).Requeue
		want = append(want, [3]time.Duration{grace, jobs, grace - jobs})
	}
	assert.Equal(t, want, rows, "docs/run/delete-a-pod.md and docs/develop/sandbox.md (actual): grace period, the jobs' part and the rest by deadlines.New (expected)")
}
