package pods

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// source is where an informer has its objects from. It knows since when Kubernetes lets nobody watch them.
type source struct {
	// bounded: it is one namespace, which Kubernetes forbids to watch once it is gone. That is no silence.
	bounded bool

	mu     sync.Mutex
	broken time.Time
}

// asked notes what Kubernetes has answered to a request for a watch, and returns it.
func (s *source) asked(w watch.Interface, err error) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil || s.bounded && apierrors.IsForbidden(err):
		s.broken = time.Time{}
	case s.broken.IsZero():
		s.broken = time.Now()
	}
	return w, err
}

// silent is since when no watch stands; zero while one does.
func (s *source) silent() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// lister is a typed client of client-go.
type lister[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// informer watches what a client lists, with a selector of labels. The first list is what etcd has at that
// moment: one of an API server that lags behind would take names from agents that another replica has told.
func informer[L runtime.Object](s *source, api kubernetes.Interface, from lister[L], of runtime.Object, selector string, trim cache.TransformFunc) (cache.SharedIndexInformer, error) {
	all := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			if o.ResourceVersion == "0" {
				o.ResourceVersion = ""
			}
			return from.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return s.asked(from.Watch(ctx, o))
		},
	}, api)
	i := cache.NewSharedIndexInformerWithOptions(all, of, cache.SharedIndexInformerOptions{Indexers: cache.Indexers{}})
	return i, i.SetTransform(trim)
}
