package peers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestOldStates: states that nobody has looked at for minutes are told to no controller, and the first look after that is.
func TestOldStates(t *testing.T) {
	r := NewReporter()
	r.Follow(&Client{})
	r.Set([]wire.NodeReport{{Name: "a", State: wire.Idle}}, time.Now())
	<-r.news
	report, told := r.difference(nil, "")
	require.Equal(t, &wire.Report{Whole: true, Nodes: []wire.NodeReport{{Name: "a", State: wire.Idle}}}, report)

	r.set = time.Now().Add(-present)
	for name, before := range map[string]map[string]wire.NodeReport{"a replica that knows nothing": nil, "one that knows older states": {}} {
		report, now := r.difference(before, "")
		require.Nil(t, report, name)
		require.Equal(t, before, now, name)
	}
	require.False(t, r.isPresent())

	r.Set([]wire.NodeReport{{Name: "a", State: wire.Idle}}, time.Now())
	require.Len(t, r.news, 1, "the same states count as new")
	report, _ = r.difference(nil, "")
	require.True(t, report.Whole)
	report, _ = r.difference(told, "")
	require.Nil(t, report)
}

// TestConf: another content of the directory with slurm.conf is a report by itself.
func TestConf(t *testing.T) {
	r := NewReporter()
	r.Follow(&Client{})
	r.SetConf("d")
	report, _ := r.difference(map[string]wire.NodeReport{}, "")
	require.Nil(t, report, "nobody has looked at the nodes")
	r.Set(nil, time.Now())
	require.Len(t, r.news, 1)
	<-r.news
	report, told := r.difference(nil, "")
	require.Equal(t, &wire.Report{Whole: true, Conf: "d"}, report)
	r.SetConf("d")
	require.Empty(t, r.news)
	report, _ = r.difference(told, "d")
	require.Nil(t, report)

	r.SetConf("e")
	require.Len(t, r.news, 1)
	report, _ = r.difference(told, "d")
	require.Equal(t, &wire.Report{Conf: "e"}, report)
}
