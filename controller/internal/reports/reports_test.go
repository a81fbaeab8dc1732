package reports

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/peers"
)

// take has a report kept.
func take(t *testing.T, r *Reports, id peers.Identity, report peers.Report) {
	t.Helper()
	require.NoError(t, r.Take(id, report))
}

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
		take(t, r, id, report)
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

	take(t, r, peers.Identity{Cluster: "other"}, peers.Report{Nodes: []peers.NodeReport{{Name: "x", State: peers.Idle}}})
	_, _, known := r.Node("other", "x")
	assert.False(t, known, "a change of what nobody knows")
	r.clusters["hpc/slurm"].heard = time.Now().Add(-2 * fresh)
	assert.Empty(t, state("c"), "nobody has confirmed it for minutes")
	took(peers.Report{}, []string{"hpc/slurm"})
	assert.Equal(t, peers.Idle, state("c"))
	r.clusters["hpc/slurm"].heard = time.Now().Add(-2 * silence)
	r.swept = time.Time{}
	take(t, r, peers.Identity{Cluster: "other"}, peers.Report{Whole: true})
	assert.Len(t, r.clusters, 1, "a silent cluster is forgotten")
}

// TestElastic: what Slurm wants of a node that nobody needs stays known, because its pod goes only then.
func TestElastic(t *testing.T) {
	r := New()
	id := peers.Identity{Cluster: "hpc/slurm"}
	assert.False(t, r.Known("hpc/slurm"))
	_, known := r.Elastic("hpc/slurm")
	assert.False(t, known)
	take(t, r, id, peers.Report{Nodes: []peers.NodeReport{{Name: "a", State: peers.Absent, Elastic: "gpu"}}})
	assert.False(t, r.Known("hpc/slurm"), "the agent has to send all")

	wanted := peers.NodeReport{Name: "a", State: peers.Absent, Elastic: "gpu", Wanted: true}
	unwanted := peers.NodeReport{Name: "b", State: peers.Absent, Elastic: "gpu"}
	take(t, r, id, peers.Report{Whole: true, Nodes: []peers.NodeReport{wanted, unwanted, {Name: "s", State: peers.Idle}, {Name: "gone", State: peers.Absent}}})
	nodes, known := r.Elastic("hpc/slurm")
	assert.True(t, known)
	assert.ElementsMatch(t, []peers.NodeReport{wanted, unwanted}, nodes)
	assert.Equal(t, []string{"hpc/slurm"}, r.Clusters())
	n, _, _ := r.Node("hpc/slurm", "b")
	assert.Equal(t, unwanted, n)

	var told []string
	r.Notify(func(_ string, names []string) { told = names })
	wanted.Wanted = false
	take(t, r, id, peers.Report{Nodes: []peers.NodeReport{wanted}})
	assert.Equal(t, []string{"a"}, told)
	take(t, r, id, peers.Report{Nodes: []peers.NodeReport{{Name: "b", State: peers.Absent}}})
	nodes, _ = r.Elastic("hpc/slurm")
	assert.Equal(t, []peers.NodeReport{wanted}, nodes, "b has no record any more")

	r.Lead()
	_, known = r.Elastic("hpc/slurm")
	assert.False(t, known, "another replica may know better")
	assert.True(t, r.Known("hpc/slurm"))
	assert.Empty(t, r.Clusters())
	take(t, r, id, peers.Report{})
	r.clusters["hpc/slurm"].heard = time.Now().Add(-2 * fresh)
	_, known = r.Elastic("hpc/slurm")
	assert.False(t, known)
}

// many are nodes whose names begin with a text.
func many(begin string, n int) (all []peers.NodeReport) {
	for i := range n {
		all = append(all, peers.NodeReport{Name: fmt.Sprintf("%s-%06d", begin, i), State: peers.Idle, Elastic: "s", Wanted: true})
	}
	return all
}

// refused has a report refused, and returns why.
func refused(t *testing.T, r *Reports, cluster string, report peers.Report) string {
	t.Helper()
	why, is := errors.AsType[*peers.NotTaken](r.Take(peers.Identity{Cluster: cluster}, report))
	require.True(t, is)
	assert.Equal(t, peers.TooManyNodes, why.Reason)
	return why.Note
}

// TestFlood: reports of changes make no cluster larger than Slurm's own bound, and what was told before stays.
func TestFlood(t *testing.T) {
	r := New()
	id := peers.Identity{Cluster: "hpc/evil"}
	take(t, r, id, peers.Report{Whole: true, Nodes: many("n", 50_000)})
	for i := range 3 {
		note := refused(t, r, "hpc/evil", peers.Report{Nodes: many(fmt.Sprintf("n%d", i), 50_000)})
		assert.Equal(t, "the cluster hpc/evil has 100000 nodes with 850000 bytes of names and reasons, and 65536 nodes with 8388608 bytes of names and reasons are allowed", note)
	}
	assert.Len(t, r.clusters["hpc/evil"].nodes, 50_000)
	assert.Equal(t, 50_000, r.Nodes())
	refused(t, r, "hpc/evil", peers.Report{Whole: true, Nodes: many("n", mostNodes+1)})
	take(t, r, id, peers.Report{Whole: true, Nodes: many("n", mostNodes)})
	take(t, r, id, peers.Report{Nodes: []peers.NodeReport{{Name: "n-000000", State: peers.Absent}, {Name: "another", State: peers.Busy}}})
	assert.Equal(t, mostNodes, r.Nodes(), "one came, and one went")
}

// TestShares: a namespace's clusters leave room for those of others, and all together are bounded.
func TestShares(t *testing.T) {
	most := size{100, 2000}
	whole := peers.Report{Whole: true, Nodes: many("n", most.nodes)}
	one := peers.Report{Whole: true, Nodes: many("n", 1)}
	small := func() *Reports {
		r := New()
		r.room.largest = most
		return r
	}
	r := small()
	for n := range clustersOfNamespace {
		take(t, r, peers.Identity{Cluster: fmt.Sprintf("evil/%d", n)}, whole)
	}
	assert.Equal(t, "the clusters of the namespace evil have 201 nodes with 1608 bytes of names and reasons, and 200 nodes with 4000 bytes of names and reasons are allowed", refused(t, r, "evil/more", one))
	assert.False(t, r.Known("evil/more"))
	take(t, r, peers.Identity{Cluster: "good/slurm"}, whole)
	long := many("n", most.nodes)
	for i := range long {
		long[i].Drain = strings.Repeat("x", 20)
	}
	assert.Contains(t, refused(t, r, "good/slurm", peers.Report{Whole: true, Nodes: long}), "the cluster good/slurm has 100 nodes with 2800 bytes")

	r = small()
	for n := range clustersOfAll {
		take(t, r, peers.Identity{Cluster: fmt.Sprintf("%d/slurm", n)}, whole)
	}
	assert.Contains(t, refused(t, r, "good/slurm", one), "all clusters have 1601 nodes")
	take(t, r, peers.Identity{Cluster: "0/slurm"}, peers.Report{Nodes: []peers.NodeReport{{Name: "n-000000", State: peers.Absent}}})
	take(t, r, peers.Identity{Cluster: "good/slurm"}, one)
}

// TestForgotten: a cluster without a slurmctld is forgotten when its last report counts no more, and another one after an
// hour.
func TestForgotten(t *testing.T) {
	r := New()
	gone := map[string]bool{}
	r.ForgetUnless(func(cluster string) bool { return !gone[cluster] })
	for _, name := range []string{"hpc/a", "hpc/b", "hpc/c"} {
		take(t, r, peers.Identity{Cluster: name}, peers.Report{Whole: true, Nodes: many("n", 10)})
	}
	later := func(d time.Duration) {
		t.Helper()
		_, _, err := r.keep("hpc/c", peers.Report{}, time.Now().Add(d))
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
