package overview

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
	"github.com/slurmlet/slurmlet/kubectl-slurm/why"
)

func TestText(t *testing.T) {
	conf := &slurm.Conf{Live: "abfe", Missed: []string{"n1"}}
	conf.Refused = &struct {
		Since time.Time `json:"since"`
		Why   []string  `json:"why"`
	}{Why: []string{"slurm.conf:3: MaxTme is not a key"}}
	r := New(Facts{
		Cluster: "slurm", Namespace: "hpc",
		Pods: map[string]*why.Pod{
			"c": {Name: "c", Role: "slurmctld", Machine: "m0", Phase: "Running", Ready: true}, "l": {Name: "l", Role: "login", Phase: "Pending", Unscheduled: "no machine"},
			"n0": {Name: "n0", Role: "slurmd", Set: "cpu", Ready: true}, "n1": {Name: "n1", Role: "slurmd", Set: "cpu"},
		},
		Agents: map[string]*slurm.Agent{"c": {Role: "slurmctld", State: "Ready", Conf: conf, Elastic: &slurm.Elastic{Sets: []slurm.Set{{Name: "burst", Nodes: "b[0-1]"}}}}},
		Groups: []slurm.Group{
			{Partition: "all", State: "drained", Count: 1, Nodes: "n0", User: "root", Since: "2026", Reason: "disk"},
			{Partition: "all", State: "mixed", Count: 1, Nodes: "n1", Reason: "slurmlet: the node takes jobs again"},
			{Partition: "all", State: "idle", Mark: "~", Count: 2, Nodes: "b[0-1]"},
			{Partition: "burst", State: "idle", Mark: "~", Count: 2, Nodes: "b[0-1]"},
		},
		Jobs: map[string]int{"RUNNING": 2, "PENDING": 3}, Unknown: []string{"something"},
	})
	var text strings.Builder
	require.NoError(t, r.WriteText(&text))
	assert.Equal(t, `Cluster slurm in namespace hpc

slurmctld      Ready               c on m0
login          Pending             l                     no machine
nodes burst    0 of 0 Ready        2 idle~
nodes cpu      1 of 2 Ready        1 drained, 1 mixed
jobs                               3 pending, 2 running
configuration  an edit is refused  abfe

Refused edit of slurm.conf
  slurm.conf:3: MaxTme is not a key

Nodes without new jobs
  n0: drained by root since 2026: disk

Warnings
  slurmctld: 1 nodes have not taken the configuration: n1

Not known
  something
`, text.String())
}
