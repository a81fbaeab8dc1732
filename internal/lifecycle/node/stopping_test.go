package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// TestStopLimit: slurmd has its time before the agent's own ends, whenever the
// stop begins.
func TestStopLimit(t *testing.T) {
	l := machine{Supervisor: supervisor.State{TimeLeft: deadlines.State{Deadlines: deadlines.New(30*time.Second, 0)}}}
	for stage, c := range map[deadlines.Stage]struct{ want, latest time.Duration }{
		deadlines.None:    {15 * time.Second, l.Deadlines.Requeue},
		deadlines.Signal:  {15 * time.Second, l.Deadlines.Requeue},
		deadlines.Requeue: {3750 * time.Millisecond, l.Deadlines.Kill},
		deadlines.Fail:    {3750 * time.Millisecond, l.Deadlines.Leave},
		deadlines.Stop:    {3750 * time.Millisecond, l.Deadlines.Stop},
	} {
		l.Stage = stage
		require.Equal(t, c.want, l.stopLimit(), "%d", stage)
		require.LessOrEqual(t, c.latest+l.stopLimit(), l.Deadlines.End, "%d", stage)
	}
}
