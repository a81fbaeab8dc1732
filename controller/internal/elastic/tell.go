package elastic

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/controller/internal/reports"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// Off is the answer of a controller that makes no pods, where Slurm waits for some; nil: it waits for none.
func Off(r *reports.Reports, cluster string, since time.Time) *wire.Answer {
	nodes, _ := r.Elastic(cluster)
	var names []string
	for _, n := range nodes {
		if n.Wanted {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &wire.Answer{Failing: wire.Failing{Pods: []wire.Failure{{
		Nodes: hostlist.Of(slices.Values(names)).Sorted().String(), Reason: noTemplate, Since: since.UTC(),
		Note: "the controller makes no pods: the chart slurmlet has elastic.enabled=false",
	}}}}
}

// Answer is what slurmctld's agent is told of the pods of its cluster.
func (m *Maker) Answer(cluster string) *wire.Answer {
	failing, starting := m.failing(cluster)
	return &wire.Answer{Failing: wire.Failing{Pods: failing}, Soon: starting}
}

// mostNotes is how many sentences a reason of a set may have. More are those of single pods, and say the same.
const mostNotes = 16

// failing groups the nodes of a cluster whose pods do not run, and says whether any pod is on its way.
func (m *Maker) failing(cluster string) (all []wire.Failure, starting bool) {
	nodes, _ := m.reports.Elastic(cluster)
	namespace, label, _ := strings.Cut(cluster, "/")
	type why struct{ set, reason, note string }
	groups := map[why]*group{}
	notes := map[why]int{} // by set and reason
	slices.SortFunc(nodes, func(a, b wire.NodeReport) int { return cmp.Compare(a.Name, b.Name) })
	for _, n := range nodes {
		if !n.Wanted {
			continue
		}
		k := key{namespace, label, n.Name}
		p := m.watcher.Get(k.pod())
		starting = starting || p == nil || !p.Ready
		t := m.trouble(k)
		if t == nil {
			continue
		}
		of, kind := why{n.Elastic, t.Reason, t.Note}, why{set: n.Elastic, reason: t.Reason}
		if notes[kind] >= mostNotes && groups[of] == nil {
			of = kind
		}
		g := groups[of]
		if g == nil {
			g = &group{note: t.Note, reason: t.Reason, since: t.Since}
			groups[of] = g
			notes[kind]++
		}
		g.nodes = append(g.nodes, n.Name)
		if t.Since.Before(g.since) {
			g.since = t.Since
		}
	}
	for _, g := range groups {
		all = append(all, wire.Failure{Nodes: hostlist.Of(slices.Values(g.nodes)).Sorted().String(), Reason: g.reason, Note: cut(g.note), Since: g.since.UTC()})
	}
	slices.SortFunc(all, func(a, b wire.Failure) int { return cmp.Compare(a.Nodes, b.Nodes) })
	return all, starting
}

type group struct {
	reason, note string
	nodes        []string
	since        time.Time
}

// mostNote bounds a sentence.
const mostNote = 500

func cut(note string) string {
	if len(note) <= mostNote {
		return note
	}
	return strings.ToValidUTF8(note[:mostNote], "") + "…"
}

// trouble is what keeps a node's pod from running now.
func (m *Maker) trouble(k key) *Trouble {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mem := m.nodes[k]; mem != nil && mem.failing {
		return mem.trouble
	}
	return nil
}

// Failing counts the wanted nodes whose pods do not run, by reason.
func (m *Maker) Failing() map[string]int {
	n := map[string]int{}
	m.mu.Lock()
	defer m.mu.Unlock()
	for mem := range maps.Values(m.nodes) {
		if mem.failing {
			n[mem.trouble.Reason]++
		}
	}
	return n
}
