package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSpread: what is asked again is spread; a deadline is not, or the kubelet
// would be quicker.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		life  life
		exact bool
	}{
		{life{state: Stopping, doing: ending}, true},
		{life{state: Stopping, doing: withdrawing}, false},
		{life{state: Starting, doing: replacing}, true},
		{life{state: Starting, doing: reaching}, false},
		{life{state: Starting, doing: confirming}, false},
		{life{state: Starting, doing: leaving}, false},
		{life{state: Starting, doing: pausing}, false},
	} {
		const wait = time.Hour
		var longer int
		for range 100 {
			after := c.life.spread(wait)
			require.GreaterOrEqual(t, after, wait)
			require.LessOrEqual(t, after, wait+wait/5)
			if after > wait {
				longer++
			}
		}
		require.Equal(t, c.exact, longer == 0, "%+v", c.life)
	}
}
