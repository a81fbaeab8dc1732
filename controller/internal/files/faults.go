package files

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/slurmlet/slurmlet/controller/internal/events"
)

// faults are the ConfigMaps that are not streamed, and the events that have to say so.
type faults struct {
	mu    sync.Mutex
	all   map[types.UID]told
	queue *events.Queue[types.UID]
}

// told is a fault of a ConfigMap.
type told struct {
	namespace, name string
	uid             types.UID
	Fault
}

func newFaults() *faults {
	return &faults{all: map[types.UID]told{}, queue: events.NewQueue[types.UID]()}
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
	f.all[m.UID] = one
	f.queue.Put(m.UID, one.event())
	return true
}

func (f *faults) forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, uid)
	f.queue.Drop(uid)
}

// eventRate is how many events a second the leader writes, and eventBurst how many at once.
const eventRate, eventBurst = 1, 10

// Tell writes an event for each fault until ctx ends: once for each, also after a change of the leader.
func (w *Watcher) Tell(ctx context.Context, api kubernetes.Interface, reporter string) {
	w.faults.queue.Write(ctx, api, reporter, eventRate, eventBurst, w.log)
}

func (t told) event() events.Event {
	return events.Event{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: t.namespace, Name: t.name, UID: t.uid},
		Type:      corev1.EventTypeWarning, Reason: t.Reason, Note: t.Note, Action: "StreamFiles",
	}
}
