package files

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/slurmlet/slurmlet/controller/internal/events"
)

// faults are the ConfigMaps that are not streamed, and whether an event has said so.
type faults struct {
	mu          sync.Mutex
	all, untold map[types.UID]told
	changed     chan struct{}
}

// told is a fault of a ConfigMap.
type told struct {
	namespace, name string
	uid             types.UID
	Fault
}

func newFaults() *faults {
	return &faults{all: map[types.UID]told{}, untold: map[types.UID]told{}, changed: make(chan struct{}, 1)}
}

// note keeps why a ConfigMap is not streamed, nil if it is, and says whether the fault is a new one.
func (f *faults) note(m *configMap, fault *Fault) bool {
	if fault == nil {
		f.forget(m.UID)
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	one := told{m.Namespace, m.Name, m.UID, *fault}
	if f.all[m.UID] == one {
		return false
	}
	f.all[m.UID], f.untold[m.UID] = one, one
	select {
	case f.changed <- struct{}{}:
	default: // it knows already
	}
	return true
}

func (f *faults) forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, uid)
	delete(f.untold, uid)
}

func (f *faults) next() (told, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.untold {
		return one, true
	}
	return told{}, false
}

func (f *faults) done(one told) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.untold[one.uid] == one {
		delete(f.untold, one.uid)
	}
}

// eventRate is how many events a second the leader writes, and eventBurst how many at once.
const eventRate, eventBurst = 1, 10

// Tell writes an event for each fault until ctx ends: once for each, also after a change of the leader.
func (w *Watcher) Tell(ctx context.Context, api kubernetes.Interface, reporter string) {
	events.Tell(ctx, api, reporter, events.Queue[told]{
		Next: w.faults.next, Done: w.faults.done, Changed: w.faults.changed, Event: told.event, Rate: eventRate, Burst: eventBurst,
	}, w.log)
}

func (t told) event() events.Event {
	return events.Event{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: t.namespace, Name: t.name, UID: t.uid},
		Type:      corev1.EventTypeWarning, Reason: t.Reason, Note: t.Note, Action: "StreamFiles",
	}
}
