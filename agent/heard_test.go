package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/pod/mainprocess"
	"github.com/slurmlet/slurmlet/internal/slurmctld"
	"github.com/slurmlet/slurmlet/internal/slurmd"
)

// TestNoise: every node is a part of its machine, and slurmd says so at every start. Some errors of slurmctld's never mean
// anything, and others pass by themselves.
func TestNoise(t *testing.T) {
	const usual = "Node configuration differs from hardware: CPUs=1:64(hw) Boards=1:1(hw)"
	node := &Agent{slurmdNode: &slurmd.Node{}}
	ctld := &Agent{ctld: &slurmctld.Pod{Options: slurmctld.Options{Life: func() (l slurmctld.Life) { return l }}}}
	for _, c := range []struct {
		agent            *Agent
		line             string
		harmless, passes bool
	}{
		{node, "cannot bind", false, false},
		{node, usual, true, false},
		{node, "Incomplete job state save file", false, false},
		{ctld, usual, false, false},
		{ctld, `_find_node_record: lookup failure for node "node-7"`, true, false},
		{ctld, "Sending PersistInit msg: Connection refused", true, true},
		{&Agent{}, usual, false, false},
	} {
		harmless, passes := c.agent.isNoise(c.line)
		assert.Equal(t, []bool{c.harmless, c.passes}, []bool{harmless, passes}, c.line)
	}
}

func TestAnErrorBeforeReadyIsAnEarlierOne(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, c := range []struct {
		status Status
		row    string
	}{
		{Status{State: supervisor.Ready, Since: at.Add(time.Second), LastError: &mainprocess.Words{At: at}}, "Earlier error"},
		{Status{State: supervisor.Ready, Since: at, LastError: &mainprocess.Words{At: at.Add(time.Second)}}, "Last error"},
		{Status{State: supervisor.Starting, Since: at.Add(time.Second), LastError: &mainprocess.Words{At: at}}, "Last error"},
	} {
		var text strings.Builder
		require.NoError(t, c.status.WriteText(&text))
		assert.Contains(t, text.String(), c.row)
	}
}
