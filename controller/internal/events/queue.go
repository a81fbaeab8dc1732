package events

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
)

// Queue is the events that have still to be written, one for each key. Those with an end wait for those without one.
type Queue[K comparable] struct {
	mu      sync.Mutex
	lasting map[K]Event
	passing map[K]passing
	changed chan struct{}
}

// passing is an event that nobody wants to hear of later.
type passing struct {
	Event
	until time.Time
}

// Waiting is an event of a Queue.
type Waiting[K comparable] struct {
	Key K
	Event
}

// NewQueue makes an empty Queue.
func NewQueue[K comparable]() *Queue[K] {
	return &Queue[K]{lasting: map[K]Event{}, passing: map[K]passing{}, changed: make(chan struct{}, 1)}
}

// Put has an event written, in place of one of the same key that has still to be written.
func (q *Queue[K]) Put(key K, e Event) {
	q.mu.Lock()
	q.lasting[key] = e
	q.mu.Unlock()
	q.wake()
}

// PutUntil has an event written until a time, in place of one of the same key.
func (q *Queue[K]) PutUntil(key K, e Event, until time.Time) {
	q.mu.Lock()
	q.passing[key] = passing{e, until}
	q.mu.Unlock()
	q.wake()
}

func (q *Queue[K]) wake() {
	select {
	case q.changed <- struct{}{}:
	default: // it knows already
	}
}

// Drop has the events of some keys not written.
func (q *Queue[K]) Drop(keys ...K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range keys {
		delete(q.lasting, key)
		delete(q.passing, key)
	}
}

// Next is an event that has still to be written.
func (q *Queue[K]) Next() (Waiting[K], bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, e := range q.lasting {
		return Waiting[K]{key, e}, true
	}
	for key, e := range q.passing {
		if time.Now().Before(e.until) {
			return Waiting[K]{key, e.Event}, true
		}
		delete(q.passing, key)
	}
	return Waiting[K]{}, false
}

// Done says that an event is written. Another one that came for its key meanwhile stays.
func (q *Queue[K]) Done(w Waiting[K]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lasting[w.Key] == w.Event {
		delete(q.lasting, w.Key)
	}
	if q.passing[w.Key].Event == w.Event {
		delete(q.passing, w.Key)
	}
}

// requestTimeout is how long one request to Kubernetes may take, and pause follows one in vain.
const requestTimeout, pause = 10 * time.Second, 5 * time.Second

// Write writes the events until ctx ends, at most so many a second and burst at once: each once, also after a change of the
// leader. reporter is the replica's name.
func (q *Queue[K]) Write(ctx context.Context, api kubernetes.Interface, reporter string, perSecond float32, burst int, log *slog.Logger) {
	rate := flowcontrol.NewTokenBucketRateLimiter(perSecond, burst)
	for {
		one, there := q.Next()
		if !there {
			select {
			case <-ctx.Done():
				return
			case <-q.changed:
			}
			continue
		}
		if rate.Wait(ctx) != nil {
			return
		}
		if err := writeInTime(ctx, api, reporter, one.Event); err != nil {
			if ctx.Err() != nil {
				return
			}
			e := one.Event
			log.Warn("cannot write an event", "kind", e.Regarding.Kind, "namespace", e.Regarding.Namespace, "name", e.Regarding.Name, slog.Any("error", err))
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			continue
		}
		q.Done(one)
	}
}

func writeInTime(ctx context.Context, api kubernetes.Interface, reporter string, e Event) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return Write(ctx, api, reporter, e)
}
