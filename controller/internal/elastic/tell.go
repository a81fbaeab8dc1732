package elastic

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slurmlet/slurmlet/controller/internal/events"
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

// tells are the refusals of whole sets, which become events.
type tells struct {
	mu      sync.Mutex
	last    map[about]told
	untold  map[about]events.Event
	changed chan struct{}
}

// about is what a refusal is about, and told what was said of it.
type about struct {
	set
	reason string
}

type told struct {
	note string
	at   time.Time
}

// mostTells is how many refusals of a cluster are remembered: a few of each of its sets.
const mostTells = 256

// leastTell is the time between two events on one reason of a set: what a quota says changes with each pod.
const leastTell = time.Minute

func newTells() *tells {
	return &tells{last: map[about]told{}, untold: map[about]events.Event{}, changed: make(chan struct{}, 1)}
}

// note says whether the refusal is a new one. regarding finds what an event is about.
func (t *tells) note(s set, what Trouble, regarding func() corev1.ObjectReference) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of, now := about{s, what.Reason}, time.Now()
	last, was := t.last[of]
	if was && (last.note == what.Note || now.Sub(last.at) < leastTell) || !was && t.many(s) {
		return false
	}
	t.last[of] = told{what.Note, now}
	if on := regarding(); on.Name != "" {
		t.untold[of] = events.Event{Regarding: on, Type: corev1.EventTypeWarning, Reason: what.Reason, Note: "The elastic node set " + s.name + " gets no pods: " + what.Note + ".", Action: "MakePods"}
		select {
		case t.changed <- struct{}{}:
		default: // it knows already
		}
	}
	return true
}

// many: there is no room for another refusal of the set's cluster. A slurmctld names the sets, and it may be taken over.
// The caller holds mu.
func (t *tells) many(s set) bool {
	n := 0
	for of := range t.last {
		if of.in() == s.in() {
			n++
		}
	}
	return n >= mostTells
}

// forgetAllBut forgets what was said of other clusters.
func (t *tells) forgetAllBut(clusters []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.last, func(of about, _ told) bool { return !slices.Contains(clusters, of.in()) })
}

// written is an event, and of what.
type written struct {
	about
	events.Event
}

func (t *tells) next() (written, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, e := range t.untold {
		return written{of, e}, true
	}
	return written{}, false
}

func (t *tells) done(w written) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.untold[w.about] == w.Event {
		delete(t.untold, w.about)
	}
}

// eventRate is how many events a second are written, and eventBurst how many at once.
const eventRate, eventBurst = 1, 10

// tell writes an event for each refusal until ctx ends.
func (t *tells) tell(ctx context.Context, api kubernetes.Interface, reporter string, log *slog.Logger) {
	events.Tell(ctx, api, reporter, events.Queue[written]{
		Next: t.next, Done: t.done, Changed: t.changed, Event: func(w written) events.Event { return w.Event }, Rate: eventRate, Burst: eventBurst,
	}, log)
}
