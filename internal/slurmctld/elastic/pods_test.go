package elastic

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// TestOldElasticPods: the controller is told to delete the pod of a node that slurmctld wants again, if it was there
// while slurmctld did not want it.
func TestOldElasticPods(t *testing.T) {
	const off, starting, up = "IDLE+POWERED_DOWN", "ALLOCATED+POWERING_UP", "ALLOCATED"
	put := func(uid string, ending bool) peers.Change {
		return peers.Change{Put: []wire.Peer{{Name: "a", Role: "slurmd", UID: uid, Ending: ending}}}
	}
	gone := func(uid string) peers.Change { return peers.Change{Gone: []wire.Gone{{Name: "a", UID: uid}}} }
	one, ending := put("1", false), put("1", true)
	for name, tt := range map[string]struct {
		story []any // a state that is looked at, or a change of the table
		want  bool  // in the last report
	}{
		"it starts":                       {[]any{off, starting, one, starting}, true},
		"the old pod is there":            {[]any{one, up, "IDLE+POWERING_DOWN", off, starting}, false},
		"the old pod ends":                {[]any{one, off, starting, ending, starting}, true},
		"the old pod is gone":             {[]any{one, off, gone("1"), starting}, true},
		"another pod":                     {[]any{one, off, gone("1"), put("2", false), starting}, true},
		"another pod that was unwanted":   {[]any{one, off, gone("1"), put("2", false), off, starting}, false},
		"it was off between two looks":    {[]any{one, up, starting}, false},
		"and it still starts":             {[]any{one, up, starting, starting}, false},
		"it was off, and has a new pod":   {[]any{one, up, gone("1"), put("2", false), starting}, true},
		"slurmctld has taken the old pod": {[]any{one, off, up}, true},
		"it is up with the old pod":       {[]any{one, off, up}, true},
		"an older look comes late":        {[]any{one, off, gone("1"), starting, "older " + off, put("2", false), "older " + off, starting}, true},
		"nobody knows the pods":           {[]any{off, starting}, true},
		"no pod while it was wanted":      {[]any{gone("0"), off, starting}, true},
		"the name is slurmctld's pod":     {[]any{peers.Change{Put: []wire.Peer{{Name: "a", Role: "slurmctld", UID: "1"}}}, off, starting}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var p podTable
			if name != "nobody knows the pods" {
				p.take(peers.Change{Whole: true})
			}
			var last wire.NodeReport
			at := time.Now()
			for _, move := range tt.story {
				switch move := move.(type) {
				case peers.Change:
					p.take(move)
				case string:
					at = at.Add(time.Second)
					looked := at
					if state, late := strings.CutPrefix(move, "older "); late {
						looked, move = at.Add(-time.Minute), state
					}
					words := strings.Split(move, "+")
					nodes := []slurm.Node{{Name: "a", State: append(words, "CLOUD")}}
					reports := peers.NodeReports(nodes, nil, map[string]string{"a": "set"})
					p.replace(reports, nodes, looked)
					last = reports[0]
				}
			}
			assert.Equal(t, tt.want, last.Wanted)
		})
	}
	var p podTable
	p.take(peers.Change{Whole: true, Put: one.Put})
	assert.False(t, p.take(ending), "nobody waits")
	nodes := []slurm.Node{{Name: "a", State: []string{"IDLE", "CLOUD", "POWERED_DOWN"}}}
	p.replace(peers.NodeReports(nodes, nil, map[string]string{"a": "set"}), nodes, time.Now())
	assert.True(t, p.take(ending), "the controller is told at once")
	assert.True(t, p.take(gone("1")))
}
