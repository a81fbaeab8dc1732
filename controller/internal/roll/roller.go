package roll

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	appsv1 "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/slurmlet/slurmlet/controller/internal/events"
	"github.com/slurmlet/slurmlet/controller/internal/namespaces"
	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/controller/internal/reports"
)

const (
	// gather is how long a change waits for others: nodes that become idle together are one plan.
	gather = 500 * time.Millisecond
	// again is when a set is looked at after a fault.
	again = 5 * time.Second
	// timeout bounds a request. A former leader's last deletion is over before another one leads
	// (leaseDuration - renewDeadline in package controller).
	timeout = 5 * time.Second
)

// Roller deletes pods of old revisions, where sets ask for it, and knows which pods StatefulSets make again.
type Roller struct {
	api     kubernetes.Interface
	watcher *pods.Watcher
	reports *reports.Reports
	log     *slog.Logger
	name    string
	sets    []*namespaces.Informers // StatefulSets first
	known   []cache.InformerSynced
	// nodesKnown says whether all StatefulSets are known that there were at the start.
	nodesKnown cache.InformerSynced
	// SetsChanged is told of which clusters Returning says something else; of none: of all. It may be nil, and is set before Run.
	SetsChanged func(clusters ...string)

	// Deleted counts pods.
	Deleted atomic.Uint64

	mu sync.Mutex
	// leads: somebody empties dirty.
	leads bool
	dirty map[types.UID]bool
	wake  chan struct{}

	// What follows is Lead's.
	hashes map[types.UID]hash
	// seen are sets whose pods this leader has read from Kubernetes itself.
	seen map[types.UID]bool
	// going are pods that are deleted, and that the watcher may not know of yet, by set.
	going map[types.UID]uids
	told  map[types.UID]string
}

// New makes a Roller, which looks at sets of the given namespaces. name is that of this replica in events.
func New(api kubernetes.Interface, in namespaces.Set, w *pods.Watcher, reported *reports.Reports, name string, log *slog.Logger) (*Roller, error) {
	r := &Roller{
		api: api, watcher: w, reports: reported, log: log, name: name, dirty: map[types.UID]bool{}, wake: make(chan struct{}, 1),
	}
	for _, kind := range []func(apps appsv1.Interface) cache.SharedIndexInformer{
		func(apps appsv1.Interface) cache.SharedIndexInformer { return apps.StatefulSets().Informer() },
		func(apps appsv1.Interface) cache.SharedIndexInformer { return apps.DaemonSets().Informer() },
	} {
		informer, err := in.Informers(func(namespace string) (cache.SharedIndexInformer, error) {
			return kind(informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithTransform(trim), informers.WithNamespace(namespace)).Apps().V1()), nil
		})
		if err != nil {
			return nil, fmt.Errorf("cannot watch Kubernetes' sets of pods: %w", err)
		}
		r.sets = append(r.sets, informer)
		known, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(now any) { r.look(now.(*set).UID) },
			UpdateFunc: func(_, now any) { r.look(now.(*set).UID) },
		})
		if err != nil {
			return nil, fmt.Errorf("cannot watch Kubernetes' sets of pods: %w", err)
		}
		r.known = append(r.known, known)
	}
	if err := r.watchNodes(); err != nil {
		return nil, err
	}
	reported.Notify(r.reported)
	return r, w.OnPods(func(p *pods.Pod) { r.look(p.Owner) })
}

// Run watches the sets until ctx ends.
func (r *Roller) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, informer := range r.sets {
		running.Go(func() { informer.Run(ctx) })
	}
	running.Go(func() { r.tellOnceKnown(ctx) })
	running.Wait()
}

// reported looks at the sets of nodes that have changed; no names are all.
func (r *Roller) reported(cluster string, names []string) {
	changed := make(map[string]bool, len(names))
	for _, name := range names {
		changed[name] = true
	}
	for _, p := range r.watcher.InCluster(cluster) {
		if len(names) == 0 || changed[p.Hostname] {
			r.look(p.Owner)
		}
	}
}

// look has a set looked at.
func (r *Roller) look(uid types.UID) {
	if uid == "" {
		return
	}
	r.mu.Lock()
	if r.leads {
		r.dirty[uid] = true
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // it knows already
	}
}

// Lead rolls until ctx ends.
func (r *Roller) Lead(ctx context.Context) {
	r.lead(true)
	defer r.lead(false)
	r.hashes, r.seen, r.going, r.told = map[types.UID]hash{}, map[types.UID]bool{}, map[types.UID]uids{}, map[types.UID]string{}
	if !cache.WaitForCacheSync(ctx.Done(), r.known...) {
		return
	}
	for _, s := range r.all() {
		r.look(s.UID)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		pause(ctx, gather)
		r.mu.Lock()
		dirty := r.dirty
		r.dirty = map[types.UID]bool{}
		r.mu.Unlock()
		for _, s := range r.all() {
			if !dirty[s.UID] || s.atOnce == "" || ctx.Err() != nil {
				continue
			}
			if err := r.roll(ctx, s); err != nil && ctx.Err() == nil {
				r.log.Warn("cannot roll", "set", s.key(), slog.Any("error", err))
				time.AfterFunc(again, func() { r.look(s.UID) })
			}
		}
	}
}

func (r *Roller) lead(leads bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads = leads
	clear(r.dirty)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// all are the sets.
func (r *Roller) all() (sets []*set) {
	for _, informer := range r.sets {
		for _, object := range informer.List() {
			if s, is := object.(*set); is {
				sets = append(sets, s)
			}
		}
	}
	return sets
}

// roll takes the next step of a set, if there is one.
func (r *Roller) roll(ctx context.Context, s *set) error {
	if s.fault != "" {
		return r.tell(ctx, s, corev1.EventTypeWarning, "BadRoll", s.fault)
	}
	if !s.settled {
		return nil // its controller tells when it has seen the change
	}
	revision, err := r.current(ctx, s)
	if err != nil || revision == "" {
		return err
	}
	there := r.watcher.OwnedBy(s.UID)
	r.forget(s, there)
	if !slices.ContainsFunc(there, func(p *pods.Pod) bool { return p.Revision.Value() != revision }) {
		return nil
	}
	if !r.seen[s.UID] {
		// A former leader may have deleted pods of which the watcher has not heard.
		if there, err = r.read(ctx, s, there); err != nil {
			return err
		}
		r.seen[s.UID] = true
	}
	for _, p := range Plan(s.planned(revision, there, func(p *pods.Pod) Pod { return r.pod(s, p) })) {
		if err := r.delete(ctx, s, p); err != nil {
			return err
		}
	}
	return nil
}

// read is what Kubernetes itself knows of a set's pods now. It remembers ends of which the watcher does not know
// yet, and forgets those that a failed request was to bring.
func (r *Roller) read(ctx context.Context, s *set, watched []*pods.Pod) ([]*pods.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	list, err := r.api.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: s.selector})
	if err != nil {
		return nil, fmt.Errorf("cannot ask for the pods: %w", err)
	}
	alive := uids{}
	var all []*pods.Pod
	for i := range list.Items {
		p := pods.Trim(&list.Items[i])
		all = append(all, p)
		if p.DeletionTimestamp == nil {
			alive[p.UID] = true
			delete(r.going[s.UID], p.UID)
		}
	}
	for _, p := range watched {
		if !alive[p.UID] {
			r.remember(s, p.UID)
		}
	}
	return all, nil
}

func (r *Roller) remember(s *set, uid types.UID) {
	if r.going[s.UID] == nil {
		r.going[s.UID] = uids{}
	}
	r.going[s.UID][uid] = true
}

// forget drops what the watcher knows of by now.
func (r *Roller) forget(s *set, watched []*pods.Pod) {
	alive := uids{}
	for _, p := range watched {
		if p.DeletionTimestamp == nil {
			alive[p.UID] = true
		}
	}
	maps.DeleteFunc(r.going[s.UID], func(uid types.UID, _ bool) bool { return !alive[uid] })
	if len(r.going[s.UID]) == 0 {
		delete(r.going, s.UID)
	}
}

// pod is one as Plan takes it. Where this leader has no report, nobody knows the state: what the former
// leader wrote to the pod may be over.
func (r *Roller) pod(s *set, p *pods.Pod) Pod {
	one := Pod{UID: p.UID, Name: p.Name, Ready: p.Ready, Pending: p.Pending, Ending: p.DeletionTimestamp != nil || r.going[s.UID][p.UID]}
	if told, _, known := r.reports.Node(p.Cluster(), p.Hostname); known && r.watcher.Holds(p) {
		one.State = told.State
	}
	return one
}

// delete begins a pod's way down: its agent drains the node and waits for the jobs.
func (r *Roller) delete(ctx context.Context, s *set, p Pod) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r.remember(s, p.UID)
	err := r.api.CoreV1().Pods(s.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // this pod is gone
	}
	if err != nil {
		r.seen[s.UID] = false // nobody knows whether it was deleted
		return fmt.Errorf("cannot delete the pod %s: %w", p.Name, err)
	}
	r.Deleted.Add(1)
	r.log.Info("a pod of an old revision is deleted", "set", s.key(), "pod", p.Name, "state", p.State)
	return r.event(ctx, s, corev1.EventTypeNormal, "Rolling", fmt.Sprintf("The pod %s has an old revision and is deleted. Its node was %s.", p.Name, stateWord(p)), string(p.UID))
}

func stateWord(p Pod) string {
	switch {
	case p.Pending:
		return "not started"
	case p.State == "":
		return "unknown"
	}
	return string(p.State)
}

// tell writes an event about a set once for each text.
func (r *Roller) tell(ctx context.Context, s *set, kind, reason, note string) error {
	if r.told[s.UID] == note {
		return nil
	}
	if err := r.event(ctx, s, kind, reason, note, ""); err != nil {
		return err
	}
	r.told[s.UID] = note
	r.log.Warn("a set is not rolled", "set", s.key(), "fault", note)
	return nil
}

func (r *Roller) event(ctx context.Context, s *set, kind, reason, note, about string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := events.Write(ctx, r.api, r.name, events.Event{
		Regarding: corev1.ObjectReference{APIVersion: "apps/v1", Kind: s.kind, Namespace: s.Namespace, Name: s.Name, UID: s.UID},
		Type:      kind, Reason: reason, Note: note, Action: "Roll", About: about,
	})
	if err != nil {
		return fmt.Errorf("cannot write an event: %w", err)
	}
	return nil
}
