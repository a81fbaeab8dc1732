package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
)

// TestSpread: what is asked again is spread; a deadline is not, or the kubelet
// would be quicker.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		life  lifecycle.State
		exact bool
	}{
		{lifecycle.State{Supervisor: supervisor.State{Phase: supervisor.Stopping, Activity: supervisor.Ending}}, true},
		{lifecycle.State{Supervisor: supervisor.State{Phase: supervisor.Stopping, Activity: supervisor.LookingAtRecord}}, false},
		{lifecycle.State{Supervisor: supervisor.State{Phase: supervisor.Starting, Activity: supervisor.Replacing}}, true},
		{lifecycle.State{Supervisor: supervisor.State{Phase: supervisor.Starting, Activity: supervisor.Reaching}}, false},
		{lifecycle.State{Supervisor: supervisor.State{Phase: supervisor.Starting, Activity: supervisor.Confirming}}, false},
		{lifecycle.State{Supervisor: supervisor.State{Phase: supervisor.Starting, Activity: supervisor.Leaving}}, false},
		{lifecycle.State{Supervisor: supervisor.State{Phase: supervisor.Starting, Activity: supervisor.Pausing}}, false},
	} {
		const wait = time.Hour
		var longer int
		for range 100 {
			after := spread(c.life, wait, 0)
			require.GreaterOrEqual(t, after, wait)
			require.LessOrEqual(t, after, wait+wait/5)
			if after > wait {
				longer++
			}
		}
		require.Equal(t, c.exact, longer == 0, "%+v", c.life)
	}
}
