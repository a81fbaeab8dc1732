package elastic

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slurmlet/slurmlet/controller/internal/events"
)

// refusedSets are the refusals of whole sets, which become events.
type refusedSets struct {
	mu    sync.Mutex
	last  map[about]told
	queue *events.Queue[about]
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

// mostRefusals is how many refusals of a cluster are remembered: a few of each of its sets.
const mostRefusals = 256

// leastAgain is the time between two events on one reason of a set: what a quota says changes with each pod.
const leastAgain = time.Minute

func newRefusedSets() *refusedSets {
	return &refusedSets{last: map[about]told{}, queue: events.NewQueue[about]()}
}

// note says whether the refusal is a new one. regarding finds what an event is about.
func (r *refusedSets) note(s set, what Trouble, regarding func() corev1.ObjectReference) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	of, now := about{s, what.Reason}, time.Now()
	last, was := r.last[of]
	if was && (last.note == what.Note || now.Sub(last.at) < leastAgain) || !was && r.many(s) {
		return false
	}
	r.last[of] = told{what.Note, now}
	if on := regarding(); on.Name != "" {
		r.queue.Put(of, events.Event{
			Regarding: on, Type: corev1.EventTypeWarning, Reason: what.Reason, Action: "MakePods",
			Note: "The elastic node set " + s.name + " gets no pods: " + what.Note + ".",
		})
	}
	return true
}

// many: there is no room for another refusal of the set's cluster. A slurmctld names the sets, and it may be taken over.
// The caller holds mu.
func (r *refusedSets) many(s set) bool {
	n := 0
	for of := range r.last {
		if of.in() == s.in() {
			n++
		}
	}
	return n >= mostRefusals
}

// forgetAllBut forgets what was said of other clusters.
func (r *refusedSets) forgetAllBut(clusters []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.last, func(of about, _ told) bool { return !slices.Contains(clusters, of.in()) })
}

// eventRate is how many events a second are written, and eventBurst how many at once.
const eventRate, eventBurst = 1, 10

// write writes an event for each refusal until ctx ends.
func (r *refusedSets) write(ctx context.Context, api kubernetes.Interface, reporter string, log *slog.Logger) {
	r.queue.Write(ctx, api, reporter, eventRate, eventBurst, log)
}
