package scalein

import (
	"sync"
	"time"
)

// queue has pods to look at, each once, by key.
type queue struct {
	mu sync.Mutex
	// takes: somebody empties it. A replica that does not lead would only fill it.
	takes bool
	now   map[string]bool
	later map[string]time.Time
	// wake is told of each pod that comes.
	wake chan struct{}
}

func newQueue() queue {
	return queue{now: map[string]bool{}, later: map[string]time.Time{}, wake: make(chan struct{}, 1)}
}

// open has the queue take pods, or forget them all.
func (q *queue) open(takes bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.takes = takes
	clear(q.now)
	clear(q.later)
}

// look has a pod looked at soon.
func (q *queue) look(key string) {
	q.mu.Lock()
	if q.takes {
		q.now[key] = true
		delete(q.later, key)
	}
	q.mu.Unlock()
	q.wakeUp()
}

// lookAt has a pod looked at later, unless it is soon.
func (q *queue) lookAt(key string, at time.Time) {
	q.mu.Lock()
	if q.takes && !q.now[key] {
		q.later[key] = at
	}
	q.mu.Unlock()
	q.wakeUp()
}

func (q *queue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default: // it knows already
	}
}

// urgent says that pods are to be looked at soon.
func (q *queue) urgent() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.now) > 0
}

// next takes a pod, or tells how long there is none.
func (q *queue) next(now time.Time) (key string, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key = range q.now {
		delete(q.now, key)
		return key, 0
	}
	wait = time.Hour
	for one, at := range q.later {
		if key == "" || at.Sub(now) < wait {
			key, wait = one, at.Sub(now)
		}
	}
	if key != "" && wait <= 0 {
		delete(q.later, key)
		return key, 0
	}
	return "", wait
}
