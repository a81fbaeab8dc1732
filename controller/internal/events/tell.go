package events

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
)

// Queue is what has to be told, each of it once.
type Queue[T any] struct {
	// Next is one that has not been told, which Done takes out of the queue. Changed says that there may be more.
	Next    func() (T, bool)
	Done    func(T)
	Changed <-chan struct{}
	Event   func(T) Event
	// Rate is how many events a second are written, and Burst how many at once.
	Rate  float32
	Burst int
}

// patience is how long one request to Kubernetes may take, and pause follows one in vain.
const patience, pause = 10 * time.Second, 5 * time.Second

// Tell writes an event for each of a queue until ctx ends: once for each, also after a change of the leader.
func Tell[T any](ctx context.Context, api kubernetes.Interface, reporter string, q Queue[T], log *slog.Logger) {
	rate := flowcontrol.NewTokenBucketRateLimiter(q.Rate, q.Burst)
	for {
		one, there := q.Next()
		if !there {
			select {
			case <-ctx.Done():
				return
			case <-q.Changed:
			}
			continue
		}
		if rate.Wait(ctx) != nil {
			return
		}
		e := q.Event(one)
		if err := writeInTime(ctx, api, reporter, e); err != nil {
			if ctx.Err() != nil {
				return
			}
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
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return Write(ctx, api, reporter, e)
}
