package namespaces

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
)

// Informers are one for each namespace of a Set, which are read as one.
//
// Kubernetes forbids to watch a named namespace that is gone, because its Role is gone with it. Nobody waits for that
// one, so the clusters of other namespaces do not notice. What was known of it stays as it was.
type Informers struct{ all []*informer }

type informer struct {
	cache.SharedIndexInformer
	namespace string
	// bounded: it is for one namespace, and may be forbidden.
	bounded bool
	// denied: Kubernetes has forbidden to watch the namespace.
	denied atomic.Bool
}

// Informers has each namespace's informer made, of which none runs yet.
func (s Set) Informers(build func(namespace string) (cache.SharedIndexInformer, error)) (*Informers, error) {
	i := &Informers{}
	for _, namespace := range s.Names() {
		one, err := build(namespace)
		if err != nil {
			return nil, err
		}
		in := &informer{SharedIndexInformer: one, namespace: namespace, bounded: !s.All()}
		if err := in.SetWatchErrorHandlerWithContext(in.failed); err != nil {
			return nil, fmt.Errorf("cannot hear of failed watches: %w", err)
		}
		i.all = append(i.all, in)
	}
	return i, nil
}

// failed hears of a list or watch that Kubernetes has not granted.
func (i *informer) failed(ctx context.Context, r *cache.Reflector, err error) {
	if i.bounded && apierrors.IsForbidden(err) {
		i.denied.Store(true)
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

// AddEventHandler has h told of the objects of all namespaces, and returns whether it has had all that there was at
// the start.
func (i *Informers) AddEventHandler(h cache.ResourceEventHandler) (cache.InformerSynced, error) {
	var faults []error
	var known []cache.InformerSynced
	for _, one := range i.all {
		handler, err := one.AddEventHandler(h)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		known = append(known, func() bool { return one.denied.Load() || handler.HasSynced() })
	}
	return func() bool {
		return !slices.ContainsFunc(known, func(known cache.InformerSynced) bool { return !known() })
	}, errors.Join(faults...)
}

// AddIndexers adds indexes, from which ByIndex reads.
func (i *Informers) AddIndexers(indexers cache.Indexers) error {
	var faults []error
	for _, one := range i.all {
		faults = append(faults, one.AddIndexers(indexers))
	}
	return errors.Join(faults...)
}

// HasSynced says whether all objects are known that there were at the start.
func (i *Informers) HasSynced() bool {
	return !slices.ContainsFunc(i.all, func(one *informer) bool { return !one.denied.Load() && !one.HasSynced() })
}

// Run watches until ctx ends.
func (i *Informers) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, one := range i.all {
		running.Go(func() { one.RunWithContext(ctx) })
	}
	running.Wait()
}

// Get is the object of a namespace and a name; nil if there is none.
func (i *Informers) Get(namespace, name string) any {
	for _, one := range i.all {
		if one.bounded && one.namespace != namespace {
			continue
		}
		object, there, err := one.GetStore().GetByKey(namespace + "/" + name)
		if err == nil && there {
			return object
		}
	}
	return nil
}

// List are all objects.
func (i *Informers) List() (objects []any) {
	for _, one := range i.all {
		objects = append(objects, one.GetStore().List()...)
	}
	return objects
}

// ByIndex are the objects with a value of an index that was added.
func (i *Informers) ByIndex(index, value string) (objects []any, err error) {
	for _, one := range i.all {
		some, err := one.GetIndexer().ByIndex(index, value)
		if err != nil {
			return nil, err
		}
		objects = append(objects, some...)
	}
	return objects, nil
}
