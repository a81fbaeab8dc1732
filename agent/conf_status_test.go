package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
)

// TestNotLiveYet: a set that slurmctld was started with is not called live, nor announced,
// before its nodes have it.
func TestNotLiveYet(t *testing.T) {
	var said []string
	a := &Agent{Options: Options{Observe: func(n Notice) { said = append(said, n.Text) }}}
	l := lifecycle.State{Phase: lifecycle.Ready, WasReady: true}
	l.Live, l.Good, l.Unsettled, l.ConfActivity = &confset.Set{Hash: "second"}, &confset.Set{Hash: "first"}, true, lifecycle.AwaitingLaunches
	starting := l
	starting.WasReady, starting.ConfActivity = false, lifecycle.ConfIdle
	a.logReload(starting, l)
	require.Empty(t, said)
}
