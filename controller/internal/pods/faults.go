package pods

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/slurmlet/slurmlet/controller/internal/events"
)

// faults are the pods that are no peers, and whether an event has said so.
type faults struct {
	mu sync.Mutex
	// all are the present ones, untold those without an event.
	all, untold map[types.UID]told
	// news are what else is to be told of pods, without an event: an agent from the webhook, and reports that are not
	// taken. said is when it was told of such reports last.
	news    map[subject]news
	said    map[subject]time.Time
	changed chan struct{}
}

// The reasons of the events.
const (
	noRole      = "NoRole"
	unknownRole = "UnknownRole"
	badName     = "BadName"
	nameTaken   = "NameTaken"
	injected    = "Injected" // no fault
)

// subject is what an event is about.
type subject struct {
	uid    types.UID
	reason string
}

// told is a fault of a pod.
type told struct {
	namespace, name string
	uid             types.UID
	Fault
}

// news is no fault, and nobody wants to hear of it later.
type news struct {
	told
	until time.Time
}

func newFaults() *faults {
	return &faults{all: map[types.UID]told{}, untold: map[types.UID]told{}, news: map[subject]news{}, said: map[subject]time.Time{}, changed: make(chan struct{}, 1)}
}

// note says whether the fault is a new one.
func (f *faults) note(p *Pod, fault Fault) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := told{p.Namespace, p.Name, p.UID, fault}
	if f.all[p.UID] == one {
		return false
	}
	f.all[p.UID], f.untold[p.UID] = one, one
	select {
	case f.changed <- struct{}{}:
	default: // it knows already
	}
	return true
}

// tell has an event written that is no fault's, until a time.
func (f *faults) tell(p *Pod, what Fault, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.news[subject{p.UID, what.Reason}] = news{told{p.Namespace, p.Name, p.UID, what}, until}
	select {
	case f.changed <- struct{}{}:
	default: // it knows already
	}
}

func (f *faults) forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, uid)
	delete(f.untold, uid)
}

// gone: nobody asks what happened to the pod.
func (f *faults) gone(uid types.UID) {
	f.forget(uid)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, reason := range append([]string{injected}, notTaken...) {
		delete(f.news, subject{uid, reason})
		delete(f.said, subject{uid, reason})
	}
}

func (f *faults) has(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, has := f.all[uid]
	return has
}

// next is a fault without an event.
func (f *faults) next() (told, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.untold {
		return one, true
	}
	for about, one := range f.news {
		if time.Now().Before(one.until) {
			return one.told, true
		}
		delete(f.news, about)
	}
	return told{}, false
}

// done: an event has told it.
func (f *faults) done(one told) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.untold[one.uid] == one {
		delete(f.untold, one.uid)
	}
	if about := (subject{one.uid, one.Reason}); f.news[about].told == one {
		delete(f.news, about)
	}
}

// Faults counts the pods that are no peers, by reason.
func (w *Watcher) Faults() map[string]int {
	w.faults.mu.Lock()
	defer w.faults.mu.Unlock()
	n := map[string]int{noRole: 0, unknownRole: 0, badName: 0, nameTaken: 0}
	for one := range maps.Values(w.faults.all) {
		n[one.Reason]++
	}
	return n
}

// eventRate is how many events a second the leader writes, and eventBurst how many at once.
const eventRate, eventBurst = 5, 20

// Tell writes an event for each fault until ctx ends: once for each, also after a change of the leader.
func (w *Watcher) Tell(ctx context.Context, api kubernetes.Interface, reporter string) {
	events.Tell(ctx, api, reporter, events.Queue[told]{
		Next: w.faults.next, Done: w.faults.done, Changed: w.faults.changed, Event: told.event, Rate: eventRate, Burst: eventBurst,
	}, w.log)
}

func (t told) event() events.Event {
	kind, action := corev1.EventTypeWarning, "TellPeers"
	switch {
	case t.Reason == injected:
		kind, action = corev1.EventTypeNormal, "Inject"
	case slices.Contains(notTaken, t.Reason):
		action = "TakeReport"
	}
	return events.Event{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: t.namespace, Name: t.name, UID: t.uid},
		Type:      kind, Reason: t.Reason, Note: t.Note, Action: action,
	}
}
