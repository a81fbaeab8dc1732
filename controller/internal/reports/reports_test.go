package reports

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// take has a report kept.
func take(t *testing.T, r *Reports, id peerserver.Identity, report wire.Report) {
	t.Helper()
	require.NoError(t, r.Take(id, report))
}

func TestReports(t *testing.T) {
	r := New()
	var told [][]string
	r.Notify(func(cluster string, names []string) { told = append(told, append([]string{cluster}, names...)) })
	id := peerserver.Identity{Cluster: "hpc/slurm"}
	state := func(name string) wire.State {
		n, _, known := r.Node("hpc/slurm", name)
		assert.Equal(t, known, n.State != "")
		return n.State
	}
	took := func(report wire.Report, want ...[]string) {
		t.Helper()
		told = nil
		take(t, r, id, report)
		assert.Equal(t, want, told)
	}
	assert.Empty(t, state("a"), "silence is no state")
	took(wire.Report{Whole: true, Nodes: []wire.NodeReport{{Name: "a", State: wire.Idle}, {Name: "b", State: wire.Busy}}}, []string{"hpc/slurm"})
	assert.Equal(t, []wire.State{wire.Idle, wire.Busy, wire.Absent}, []wire.State{state("a"), state("b"), state("c")})
	_, since, _ := r.Node("hpc/slurm", "a")

	took(wire.Report{Nodes: []wire.NodeReport{{Name: "b", State: wire.Idle}}}, []string{"hpc/slurm", "b"})
	took(wire.Report{Nodes: []wire.NodeReport{{Name: "b", State: wire.Idle}}})
	took(wire.Report{Nodes: []wire.NodeReport{{Name: "a", State: wire.Idle, Drain: "bad DIMM"}}}, []string{"hpc/slurm", "a"})
	n, again, _ := r.Node("hpc/slurm", "a")
	assert.Equal(t, "bad DIMM", n.Drain)
	assert.Equal(t, since, again, "the state is the same")
	took(wire.Report{Nodes: []wire.NodeReport{{Name: "b", State: wire.Absent}}}, []string{"hpc/slurm", "b"})
	assert.Equal(t, wire.Absent, state("b"))
	took(wire.Report{Whole: true, Nodes: []wire.NodeReport{{Name: "c", State: wire.Idle}}}, []string{"hpc/slurm", "c", "a"})
	assert.Equal(t, []wire.State{wire.Absent, wire.Absent, wire.Idle}, []wire.State{state("a"), state("b"), state("c")})

	took(wire.Report{Conf: "d"})
	assert.Equal(t, "d", r.Conf("hpc/slurm"))
	r.Lead()
	assert.Empty(t, state("c"), "another replica may know better")
	assert.Empty(t, r.Conf("hpc/slurm"))
	took(wire.Report{}, []string{"hpc/slurm"})
	assert.Equal(t, wire.Idle, state("c"), "this replica has had the last report")

	take(t, r, peerserver.Identity{Cluster: "other"}, wire.Report{Nodes: []wire.NodeReport{{Name: "x", State: wire.Idle}}})
	_, _, known := r.Node("other", "x")
	assert.False(t, known, "a change of what nobody knows")
	r.clusters["hpc/slurm"].heard = time.Now().Add(-2 * fresh)
	assert.Empty(t, state("c"), "nobody has confirmed it for minutes")
	took(wire.Report{}, []string{"hpc/slurm"})
	assert.Equal(t, wire.Idle, state("c"))
	r.clusters["hpc/slurm"].heard = time.Now().Add(-2 * silence)
	r.swept = time.Time{}
	take(t, r, peerserver.Identity{Cluster: "other"}, wire.Report{Whole: true})
	assert.Len(t, r.clusters, 1, "a silent cluster is forgotten")
}

// TestElastic: what Slurm wants of a node that nobody needs stays known, because its pod goes only then.
func TestElastic(t *testing.T) {
	r := New()
	id := peerserver.Identity{Cluster: "hpc/slurm"}
	assert.False(t, r.Known("hpc/slurm"))
	_, known := r.Elastic("hpc/slurm")
	assert.False(t, known)
	take(t, r, id, wire.Report{Nodes: []wire.NodeReport{{Name: "a", State: wire.Absent, Elastic: "gpu"}}})
	assert.False(t, r.Known("hpc/slurm"), "the agent has to send all")

	wanted := wire.NodeReport{Name: "a", State: wire.Absent, Elastic: "gpu", Wanted: true}
	unwanted := wire.NodeReport{Name: "b", State: wire.Absent, Elastic: "gpu"}
	take(t, r, id, wire.Report{Whole: true, Nodes: []wire.NodeReport{wanted, unwanted, {Name: "s", State: wire.Idle}, {Name: "gone", State: wire.Absent}}})
	nodes, known := r.Elastic("hpc/slurm")
	assert.True(t, known)
	assert.ElementsMatch(t, []wire.NodeReport{wanted, unwanted}, nodes)
	assert.Equal(t, []string{"hpc/slurm"}, r.Clusters())
	n, _, _ := r.Node("hpc/slurm", "b")
	assert.Equal(t, unwanted, n)

	var told []string
	r.Notify(func(_ string, names []string) { told = names })
	wanted.Wanted = false
	take(t, r, id, wire.Report{Nodes: []wire.NodeReport{wanted}})
	assert.Equal(t, []string{"a"}, told)
	take(t, r, id, wire.Report{Nodes: []wire.NodeReport{{Name: "b", State: wire.Absent}}})
	nodes, _ = r.Elastic("hpc/slurm")
	assert.Equal(t, []wire.NodeReport{wanted}, nodes, "b has no record any more")

	r.Lead()
	_, known = r.Elastic("hpc/slurm")
	assert.False(t, known, "another replica may know better")
	assert.True(t, r.Known("hpc/slurm"))
	assert.Empty(t, r.Clusters())
	take(t, r, id, wire.Report{})
	r.clusters["hpc/slurm"].heard = time.Now().Add(-2 * fresh)
	_, known = r.Elastic("hpc/slurm")
	assert.False(t, known)
}

// many are nodes whose names begin with a text.
func many(begin string, n int) (all []wire.NodeReport) {
	for i := range n {
		all = append(all, wire.NodeReport{Name: fmt.Sprintf("%s-%06d", begin, i), State: wire.Idle, Elastic: "s", Wanted: true})
	}
	return all
}

// refused has a report refused, and returns why.
func refused(t *testing.T, r *Reports, cluster string, report wire.Report) string {
	t.Helper()
	why, is := errors.AsType[*peerserver.NotTaken](r.Take(peerserver.Identity{Cluster: cluster}, report))
	require.True(t, is)
	assert.Equal(t, peerserver.TooManyNodes, why.Reason)
	return why.Note
}

// TestFlood: reports of changes make no cluster larger than Slurm's own bound, and what was told before stays.
func TestFlood(t *testing.T) {
	r := New()
	id := peerserver.Identity{Cluster: "hpc/evil"}
	take(t, r, id, wire.Report{Whole: true, Nodes: many("n", 50_000)})
	for i := range 3 {
		note := refused(t, r, "hpc/evil", wire.Report{Nodes: many(fmt.Sprintf("n%d", i), 50_000)})
		assert.Equal(t, "the cluster hpc/evil has 100000 nodes with 850000 bytes of names and reasons, and 65536 nodes with 8388608 bytes of names and reasons are allowed", note)
	}
	assert.Len(t, r.clusters["hpc/evil"].nodes, 50_000)
	assert.Equal(t, 50_000, r.Nodes())
	refused(t, r, "hpc/evil", wire.Report{Whole: true, Nodes: many("n", mostNodes+1)})
	take(t, r, id, wire.Report{Whole: true, Nodes: many("n", mostNodes)})
	take(t, r, id, wire.Report{Nodes: []wire.NodeReport{{Name: "n-000000", State: wire.Absent}, {Name: "another", State: wire.Busy}}})
	assert.Equal(t, mostNodes, r.Nodes(), "one came, and one went")
}

// TestShares: a namespace's clusters leave room for those of others, and all together are bounded.
func TestShares(t *testing.T) {
	most := size{100, 2000}
	whole := wire.Report{Whole: true, Nodes: many("n", most.nodes)}
	one := wire.Report{Whole: true, Nodes: many("n", 1)}
	small := func() *Reports {
		r := New()
		r.room.largest = most
		return r
	}
	r := small()
	for n := range clustersOfNamespace {
		take(t, r, peerserver.Identity{Cluster: fmt.Sprintf("evil/%d", n)}, whole)
	}
	assert.Equal(t, "the clusters of the namespace evil have 201 nodes with 1608 bytes of names and reasons, and 200 nodes with 4000 bytes of names and reasons are allowed", refused(t, r, "evil/more", one))
	assert.False(t, r.Known("evil/more"))
	take(t, r, peerserver.Identity{Cluster: "good/slurm"}, whole)
	long := many("n", most.nodes)
	for i := range long {
		long[i].Drain = strings.Repeat("x", 20)
	}
	assert.Contains(t, refused(t, r, "good/slurm", wire.Report{Whole: true, Nodes: long}), "the cluster good/slurm has 100 nodes with 2800 bytes")

	r = small()
	for n := range clustersOfAll {
		take(t, r, peerserver.Identity{Cluster: fmt.Sprintf("%d/slurm", n)}, whole)
	}
	assert.Contains(t, refused(t, r, "good/slurm", one), "all clusters have 1601 nodes")
	take(t, r, peerserver.Identity{Cluster: "0/slurm"}, wire.Report{Nodes: []wire.NodeReport{{Name: "n-000000", State: wire.Absent}}})
	take(t, r, peerserver.Identity{Cluster: "good/slurm"}, one)
}

// TestForgotten: a cluster without a slurmctld is forgotten when its last report counts no more, and another one after an
// hour.
func TestForgotten(t *testing.T) {
	r := New()
	gone := map[string]bool{}
	r.ForgetUnless(func(cluster string) bool { return !gone[cluster] })
	for _, name := range []string{"hpc/a", "hpc/b", "hpc/c"} {
		take(t, r, peerserver.Identity{Cluster: name}, wire.Report{Whole: true, Nodes: many("n", 10)})
	}
	later := func(d time.Duration) {
		t.Helper()
		_, _, err := r.keep("hpc/c", wire.Report{}, time.Now().Add(d))
		require.NoError(t, err)
	}
	gone["hpc/a"] = true
	later(fresh - time.Second)
	assert.True(t, r.Known("hpc/a"), "its slurmctld may come back")
	later(fresh + sweep)
	assert.False(t, r.Known("hpc/a"))
	assert.Equal(t, 20, r.Nodes())
	later(silence + sweep)
	assert.False(t, r.Known("hpc/b"))
	assert.True(t, r.Known("hpc/c"), "somebody tells of it")
	assert.Equal(t, 10, r.Nodes())
}
