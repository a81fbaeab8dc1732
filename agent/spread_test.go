package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
)

// TestSpread: what is asked again is spread; a deadline is not, or the kubelet
// would be quicker.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		life  lifecycle.State
		exact bool
	}{
		{lifecycle.State{Phase: lifecycle.Stopping, Activity: lifecycle.Ending}, true},
		{lifecycle.State{Phase: lifecycle.Stopping, Activity: lifecycle.LookingAtRecord}, false},
		{lifecycle.State{Phase: lifecycle.Starting, Activity: lifecycle.Replacing}, true},
		{lifecycle.State{Phase: lifecycle.Starting, Activity: lifecycle.Reaching}, false},
		{lifecycle.State{Phase: lifecycle.Starting, Activity: lifecycle.Confirming}, false},
		{lifecycle.State{Phase: lifecycle.Starting, Activity: lifecycle.Leaving}, false},
		{lifecycle.State{Phase: lifecycle.Starting, Activity: lifecycle.Pausing}, false},
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
