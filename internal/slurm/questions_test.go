package slurm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQuestionLimit: no question is given up before Slurm's own command gives up.
func TestQuestionLimit(t *testing.T) {
	const least = 15 * time.Second
	for timeout, want := range map[string]time.Duration{"10 sec": least, "5 sec": least, "100 sec": 105 * time.Second, "": least} {
		q := &Questions{Least: least}
		q.Learn(Config{"MessageTimeout": timeout})
		require.Equal(t, want, q.Limit(), timeout)
	}
}
