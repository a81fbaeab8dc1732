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

// faults are the pods that are no peers, and what events have to say of pods.
type faults struct {
	mu sync.Mutex
	// all are the present faults.
	all map[types.UID]told
	// said is when an event told of reports that are not taken.
	said map[subject]time.Time
	// queue has faults, which have no reason in their subjects, and what else is to be said of pods: an agent from the
	// webhook, and reports that are not taken.
	queue *events.Queue[subject]
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

func newFaults() *faults {
	return &faults{all: map[types.UID]told{}, said: map[subject]time.Time{}, queue: events.NewQueue[subject]()}
}

// note says whether the fault is a new one.
func (f *faults) note(p *Pod, fault Fault) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := told{p.Namespace, p.Name, p.UID, fault}
	if f.all[p.UID] == one {
		return false
	}
	f.all[p.UID] = one
	f.queue.Put(subject{uid: p.UID}, one.event())
	return true
}

// tell has an event written that is no fault's, until a time.
func (f *faults) tell(p *Pod, what Fault, until time.Time) {
	f.queue.PutUntil(subject{p.UID, what.Reason}, told{p.Namespace, p.Name, p.UID, what}.event(), until)
}

func (f *faults) forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, uid)
	f.queue.Drop(subject{uid: uid})
}

// gone: nobody asks what happened to the pod.
func (f *faults) gone(uid types.UID) {
	f.forget(uid)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, reason := range append([]string{injected}, notTaken...) {
		f.queue.Drop(subject{uid, reason})
		delete(f.said, subject{uid, reason})
	}
}

func (f *faults) has(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, has := f.all[uid]
	return has
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
	w.faults.queue.Write(ctx, api, reporter, eventRate, eventBurst, w.log)
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
