package reports

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/internal/peers"
)

func TestReports(t *testing.T) {
	r := New()
	var told [][]string
	r.Notify(func(cluster string, names []string) { told = append(told, append([]string{cluster}, names...)) })
	id := peers.Identity{Cluster: "hpc/slurm"}
	state := func(name string) peers.State {
		n, _, known := r.Node("hpc/slurm", name)
		assert.Equal(t, known, n.State != "")
		return n.State
	}
	took := func(report peers.Report, want ...[]string) {
		t.Helper()
		told = nil
		r.Take(id, report)
		assert.Equal(t, want, told)
	}
	assert.Empty(t, state("a"), "silence is no state")
	took(peers.Report{Whole: true, Nodes: []peers.NodeReport{{Name: "a", State: peers.Idle}, {Name: "b", State: peers.Busy}}}, []string{"hpc/slurm"})
	assert.Equal(t, []peers.State{peers.Idle, peers.Busy, peers.Absent}, []peers.State{state("a"), state("b"), state("c")})
	_, since, _ := r.Node("hpc/slurm", "a")

	took(peers.Report{Nodes: []peers.NodeReport{{Name: "b", State: peers.Idle}}}, []string{"hpc/slurm", "b"})
	took(peers.Report{Nodes: []peers.NodeReport{{Name: "b", State: peers.Idle}}})
	took(peers.Report{Nodes: []peers.NodeReport{{Name: "a", State: peers.Idle, Drain: "bad DIMM"}}}, []string{"hpc/slurm", "a"})
	n, again, _ := r.Node("hpc/slurm", "a")
	assert.Equal(t, "bad DIMM", n.Drain)
	assert.Equal(t, since, again, "the state is the same")
	took(peers.Report{Nodes: []peers.NodeReport{{Name: "b", State: peers.Absent}}}, []string{"hpc/slurm", "b"})
	assert.Equal(t, peers.Absent, state("b"))
	took(peers.Report{Whole: true, Nodes: []peers.NodeReport{{Name: "c", State: peers.Idle}}}, []string{"hpc/slurm", "c", "a"})
	assert.Equal(t, []peers.State{peers.Absent, peers.Absent, peers.Idle}, []peers.State{state("a"), state("b"), state("c")})

	r.Lead()
	assert.Empty(t, state("c"), "another replica may know better")
	took(peers.Report{}, []string{"hpc/slurm"})
	assert.Equal(t, peers.Idle, state("c"), "this replica has had the last report")

	r.Take(peers.Identity{Cluster: "other"}, peers.Report{Nodes: []peers.NodeReport{{Name: "x", State: peers.Idle}}})
	_, _, known := r.Node("other", "x")
	assert.False(t, known, "a change of what nobody knows")
	r.clusters["hpc/slurm"].heard = time.Now().Add(-2 * fresh)
	assert.Empty(t, state("c"), "nobody has confirmed it for minutes")
	took(peers.Report{}, []string{"hpc/slurm"})
	assert.Equal(t, peers.Idle, state("c"))
	r.clusters["hpc/slurm"].heard = time.Now().Add(-2 * silence)
	r.Take(peers.Identity{Cluster: "other"}, peers.Report{Whole: true})
	assert.Len(t, r.clusters, 1, "a silent cluster is forgotten")
}

// TestElastic: what Slurm wants of a node that nobody needs stays known, because its pod goes only then.
func TestElastic(t *testing.T) {
	r := New()
	id := peers.Identity{Cluster: "hpc/slurm"}
	assert.False(t, r.Known("hpc/slurm"))
	_, known := r.Elastic("hpc/slurm")
	assert.False(t, known)
	r.Take(id, peers.Report{Nodes: []peers.NodeReport{{Name: "a", State: peers.Absent, Elastic: "gpu"}}})
	assert.False(t, r.Known("hpc/slurm"), "the agent has to send all")

	wanted := peers.NodeReport{Name: "a", State: peers.Absent, Elastic: "gpu", Wanted: true}
	unwanted := peers.NodeReport{Name: "b", State: peers.Absent, Elastic: "gpu"}
	r.Take(id, peers.Report{Whole: true, Nodes: []peers.NodeReport{wanted, unwanted, {Name: "s", State: peers.Idle}, {Name: "gone", State: peers.Absent}}})
	nodes, known := r.Elastic("hpc/slurm")
	assert.True(t, known)
	assert.ElementsMatch(t, []peers.NodeReport{wanted, unwanted}, nodes)
	assert.Equal(t, []string{"hpc/slurm"}, r.Clusters())
	n, _, _ := r.Node("hpc/slurm", "b")
	assert.Equal(t, unwanted, n)

	var told []string
	r.Notify(func(_ string, names []string) { told = names })
	wanted.Wanted = false
	r.Take(id, peers.Report{Nodes: []peers.NodeReport{wanted}})
	assert.Equal(t, []string{"a"}, told)
	r.Take(id, peers.Report{Nodes: []peers.NodeReport{{Name: "b", State: peers.Absent}}})
	nodes, _ = r.Elastic("hpc/slurm")
	assert.Equal(t, []peers.NodeReport{wanted}, nodes, "b has no record any more")

	r.Lead()
	_, known = r.Elastic("hpc/slurm")
	assert.False(t, known, "another replica may know better")
	assert.True(t, r.Known("hpc/slurm"))
	assert.Empty(t, r.Clusters())
	r.Take(id, peers.Report{})
	r.clusters["hpc/slurm"].heard = time.Now().Add(-2 * fresh)
	_, known = r.Elastic("hpc/slurm")
	assert.False(t, known)
}

// TestFlood: reports of changes make no cluster larger than Slurm's own bound.
func TestFlood(t *testing.T) {
	r := New()
	id := peers.Identity{Cluster: "hpc/evil", Pod: "hpc/p", UID: "u", Role: "slurmctld"}
	r.Lead()
	r.Take(id, peers.Report{Whole: true, Nodes: []peers.NodeReport{{Name: "a", State: peers.Idle}}})
	for i := range 6 {
		var nodes []peers.NodeReport
		for n := range 50_000 {
			nodes = append(nodes, peers.NodeReport{Name: fmt.Sprintf("n%d-%06d", i, n), State: peers.Idle, Elastic: "s", Wanted: true})
		}
		r.Take(id, peers.Report{Nodes: nodes})
	}
	assert.LessOrEqual(t, len(r.clusters["hpc/evil"].nodes), 65_536)
}
