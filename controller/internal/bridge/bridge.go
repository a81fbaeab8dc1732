// Package bridge has Kubernetes' pods wait in Slurm's queue: it tells package queue what Kubernetes and the gateways say,
// and does what that decides. The replica that leads alone does so; it has read all pods from the API before.
package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"github.com/slurmlet/slurmlet/controller/internal/events"
	"github.com/slurmlet/slurmlet/controller/internal/namespaces"
	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/controller/internal/queue"
	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

const (
	// atOnce is how many requests to Kubernetes are under way, and timeout bounds each. A former leader's last one is over
	// before another one leads (leaseDuration - renewDeadline in package controller).
	atOnce, timeout = 16, 5 * time.Second
	// pause follows a request in vain.
	pause = 5 * time.Second
	// eventRate and eventBurst bound the events of a second.
	eventRate, eventBurst = 25, 50
	// selector is of pods and namespaces.
	selector = wellknown.Bridge + "=true"
)

// Settings say whether pods wait in Slurm's queue.
type Settings struct {
	On bool
	// In are the namespaces whose pods may wait.
	In namespaces.Set
	// QPS is how many pods are changed in a second.
	QPS float32
}

// Bridge is the part of the controller that does so.
type Bridge struct {
	Settings
	api     kubernetes.Interface
	dynamic dynamic.Interface
	watcher *pods.Watcher
	name    string
	log     *slog.Logger
	limit   flowcontrol.RateLimiter

	pods                       *namespaces.Informers
	namespaces, nodes          cache.SharedIndexInformer
	podsKnown, namespacesKnown cache.InformerSynced
	told                       *events.Queue[eventKey]
	owners                     *ownerCache
	sharing                    sharing

	// Bound, Ended and Failed count pods that were put on nodes, pods that were deleted, and requests in vain.
	Bound, Ended, Failed atomic.Uint64

	mu   sync.Mutex
	term *term
	sent map[wire.OrderKind]uint64
}

type eventKey struct {
	uid    types.UID
	reason string
}

// New makes a Bridge, which works in Lead alone. It limits its requests itself.
func New(api kubernetes.Interface, d dynamic.Interface, w *pods.Watcher, s Settings, name string, log *slog.Logger) (*Bridge, error) {
	b := &Bridge{
		Settings: s, api: api, dynamic: d, watcher: w, name: name, log: log, limit: flowcontrol.NewTokenBucketRateLimiter(s.QPS, max(int(s.QPS), 1)),
		told: events.NewQueue[eventKey](), owners: newOwnerCache(d), sent: map[wire.OrderKind]uint64{},
	}
	watch := func(namespace string) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithNamespace(namespace), informers.WithTransform(trim),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
	}
	var err error
	b.pods, err = s.In.Informers(func(namespace string) (cache.SharedIndexInformer, error) {
		return watch(namespace).Core().V1().Pods().Informer(), nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot watch Kubernetes' pods in Slurm's queue: %w", err)
	}
	b.namespaces = watch(metav1.NamespaceAll).Core().V1().Namespaces().Informer()
	b.nodes = informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithTransform(trimMachine)).Core().V1().Nodes().Informer()
	b.podsKnown, err = b.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { b.podChanged(now.(*corev1.Pod)) },
		UpdateFunc: func(last, now any) { b.podUpdated(last.(*corev1.Pod), now.(*corev1.Pod)) },
		DeleteFunc: func(last any) { b.podGone(final(last).(*corev1.Pod).UID) },
	})
	if err != nil {
		return nil, fmt.Errorf("cannot watch Kubernetes' pods in Slurm's queue: %w", err)
	}
	namespaceHandler, err := b.namespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { b.namespaceChanged(now.(*corev1.Namespace).Name) },
		UpdateFunc: func(_, now any) { b.namespaceChanged(now.(*corev1.Namespace).Name) },
		DeleteFunc: func(last any) { b.namespaceChanged(final(last).(*corev1.Namespace).Name) },
	})
	if err != nil {
		return nil, fmt.Errorf("cannot watch Kubernetes' namespaces: %w", err)
	}
	b.namespacesKnown = namespaceHandler.HasSynced
	return b, nil
}

// final is the last that is known of a deleted object.
func final(last any) any {
	if unknown, is := last.(cache.DeletedFinalStateUnknown); is {
		return unknown.Obj
	}
	return last
}

// trim drops what nobody reads.
func trim(object any) (any, error) {
	if o, is := object.(metav1.Object); is {
		o.SetManagedFields(nil)
	}
	return object, nil
}

// Run watches pods and namespaces until ctx ends.
func (b *Bridge) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { b.pods.Run(ctx) })
	running.Go(func() { b.namespaces.RunWithContext(ctx) })
	running.Go(func() { b.nodes.RunWithContext(ctx) })
	running.Wait()
}

// Lead decides and acts until ctx ends.
func (b *Bridge) Lead(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), b.watcher.HasSynced, b.podsKnown, b.namespacesKnown, b.nodes.HasSynced) {
		return
	}
	t := newTerm(ctx)
	b.mu.Lock()
	b.term = t
	b.mu.Unlock()
	var working sync.WaitGroup
	for range atOnce {
		working.Go(func() { work(ctx, t.look, func(key string) { b.look(ctx, t, key) }) })
		working.Go(func() { work(ctx, t.doing, func(uid types.UID) { b.act(ctx, t, uid) }) })
	}
	working.Go(func() { b.told.Write(ctx, b.api, b.name, eventRate, eventBurst, b.log) })
	b.listAll(ctx, t)
	<-ctx.Done()
	b.mu.Lock()
	b.term = nil
	t.end()
	b.mu.Unlock()
	working.Wait()
}

func work[K comparable](ctx context.Context, q workqueue.TypedDelayingInterface[K], take func(K)) {
	for {
		k, end := q.Get()
		if end {
			return
		}
		if ctx.Err() == nil {
			take(k)
		}
		q.Done(k)
	}
}

// listAll reads all pods of the API itself: the watch may not have told of what a former leader has done.
func (b *Bridge) listAll(ctx context.Context, t *term) {
	for ctx.Err() == nil {
		all, err := b.list(ctx)
		if err != nil {
			b.log.Warn("cannot list the pods in Slurm's queue", slog.Any("error", err))
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		}
		b.mu.Lock()
		for i := range all {
			p := &all[i]
			t.before[p.UID] = true
			t.see(p)
			t.look.Add(p.Namespace + "/" + p.Name)
		}
		t.synced = true
		b.mu.Unlock()
		b.log.Info("the pods in Slurm's queue are known", "pods", len(all))
		return
	}
}

// list reads the pods of all namespaces. One that is gone has no pods, and nobody may list them: its Role is gone with it.
func (b *Bridge) list(ctx context.Context) (all []corev1.Pod, err error) {
	for _, namespace := range b.In.Names() {
		list, err := b.api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if apierrors.IsForbidden(err) && !b.In.All() {
			if there, unknown := b.exists(ctx, namespace); unknown == nil && !there {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
	}
	return all, nil
}

// exists says whether there is a namespace, with the label or without it.
func (b *Bridge) exists(ctx context.Context, namespace string) (bool, error) {
	list, err := b.api.CoreV1().Namespaces().List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, namespace).String()})
	if err != nil {
		return false, err
	}
	return len(list.Items) > 0, nil
}

func (b *Bridge) podUpdated(last, now *corev1.Pod) {
	if last.UID != now.UID {
		b.podGone(last.UID)
	}
	b.podChanged(now)
}

func (b *Bridge) podChanged(p *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.term != nil && b.term.see(p) {
		b.term.look.Add(p.Namespace + "/" + p.Name)
	}
}

func (b *Bridge) podGone(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.term == nil {
		return
	}
	last := b.term.seen[uid]
	delete(b.term.seen, uid)
	if g := b.term.of[uid]; g != nil {
		delete(b.term.of, uid)
		b.step(g, queue.PodGone{UID: string(uid)})
		delete(g.pods, uid)
	}
	b.term.wakeOf(last)
}

// namespaceChanged looks at all pods of a namespace anew.
func (b *Bridge) namespaceChanged(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.term == nil {
		return
	}
	for _, p := range b.term.seen {
		if p.Namespace == name {
			b.term.look.Add(p.Namespace + "/" + p.Name)
		}
	}
}

// tenant is what a namespace says.
func (b *Bridge) tenant(name string) (queue.Tenant, error) {
	object, there, err := b.namespaces.GetStore().GetByKey(name)
	if err != nil || !there {
		return queue.Tenant{}, fmt.Errorf("the namespace %s has no label %s", name, selector)
	}
	n := object.(*corev1.Namespace)
	return queue.TenantOf(name, n.Labels, n.Annotations)
}

// tenants are those of a cluster with a user.
func (b *Bridge) hasUser(cluster, user string) bool {
	for _, object := range b.namespaces.GetStore().List() {
		n := object.(*corev1.Namespace)
		t, err := queue.TenantOf(n.Name, n.Labels, n.Annotations)
		if err == nil && t.Cluster == cluster && (t.User == user || slices.Contains(t.Users, user)) {
			return true
		}
	}
	return false
}

// look has a pod's group hear of the pod.
func (b *Bridge) look(ctx context.Context, t *term, key string) {
	b.mu.Lock()
	p := t.byKey(key)
	b.mu.Unlock()
	if p == nil {
		return
	}
	spec, g, tenant, owner, podGroup, again := b.judge(ctx, p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.term != t || t.seen[p.UID] == nil {
		return
	}
	if again {
		t.look.AddAfter(key, pause)
		if t.of[p.UID] == nil && (queue.Gated(p) || g.UID == string(p.UID)) {
			if queue.Gated(p) {
				b.say(p, "NotSubmitted", spec.Fault, true)
			}
			return // which group it is in, nobody knows now
		}
	}
	one := t.of[p.UID]
	if known := g.Open || g.Watched != ""; one != nil && known && one.state.UID != g.UID && !again && one.state.Leave(string(p.UID)) {
		delete(t.of, p.UID) // its PodGroup has come, or its Job has become a gang
		b.step(one, queue.PodGone{UID: string(p.UID)})
		delete(one.pods, p.UID)
		one = nil
	}
	if one == nil {
		if one = t.groups[g.UID]; one == nil {
			one = &group{state: queue.State{Doubt: t.before[p.UID]}, pods: map[types.UID]*corev1.Pod{}}
			t.groups[g.UID] = one
		}
		t.of[p.UID] = one
	}
	one.pods[p.UID], one.kept = p, true // also before it has a pod
	one.index = g.Index
	one.owners.add(owner, g.Open && owner == (watched{}) && metav1.GetControllerOfNoCopy(p) != nil)
	if g.Open && podGroup != (watched{}) {
		one.podGroup = podGroup
	}
	if one.state.UID == "" || queue.Gated(p) && !again && one.state.UID == g.UID {
		one.namespace = p.Namespace
		b.step(one, queue.SpecIs{Spec: spec})
	}
	if one.cluster == "" && tenant.Cluster != "" {
		one.cluster = tenant.Cluster
		if t.cluster(one.cluster).known {
			b.step(one, queue.AllTold{Jobs: one.jobs()})
		}
	}
	one.kept = false
	b.step(one, queue.PodIs{Pod: queue.PodOf(p, g)})
	t.wakeOf(p)
}

// judge says what a pod's group asks for. again says that an answer was missing.
func (b *Bridge) judge(ctx context.Context, p *corev1.Pod) (spec queue.Spec, g queue.Group, tenant queue.Tenant, owner, podGroup watched, again bool) {
	tenant, tenantErr := b.tenant(p.Namespace)
	owners, err := b.owners.of(ctx, p)
	again = err != nil
	var faults []string
	fault := func(err error) {
		if err != nil {
			faults = append(faults, err.Error())
		}
	}
	fault(err)
	g, err = queue.GroupOf(p, owners)
	fault(err)
	if uid := p.Annotations[wellknown.Group]; uid != "" && !queue.Gated(p) && uid != g.UID {
		g.UID, g.Gang, g.Size = uid, true, 1<<16 // its owner is gone, or is not known now
	}
	owner = watch(owners, g.Watched)
	pods := b.together(g, p)
	if g.Open {
		podGroup = watch(owners, g.UID)
		if g.Size = max(g.Size, alive(pods)); g.Whole > 0 {
			g.Whole = g.Size
		}
	}
	fault(tenantErr)
	if why := queue.Unfit(p); why != "" {
		faults = append(faults, why)
	}
	spec = queue.Spec{UID: g.UID, Name: g.Name, User: tenant.User, Size: g.Size, Whole: g.Whole, Gang: g.Gang}
	if len(faults) == 0 {
		tenant.Sets = b.sharing.of(b, tenant.Cluster, time.Now())
		spec.User, spec.Args, err = queue.Translate(g, tenant, pods, owners)
		fault(err)
	}
	if len(faults) > 0 {
		spec.Fault = "The pod is not submitted: " + faults[0] + "."
		spec.User = tenant.User
	}
	return spec, g, tenant, owner, podGroup, again
}

// together are a group's pods that are known, with one of them first.
func (b *Bridge) together(g queue.Group, p *corev1.Pod) []*corev1.Pod {
	all := []*corev1.Pod{p}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.term == nil || !g.Gang {
		return all
	}
	if one := b.term.groups[g.UID]; one != nil {
		for uid, other := range one.pods {
			if uid != p.UID {
				all = append(all, other)
			}
		}
	}
	return all
}

// alive is how many pods have not ended.
func alive(pods []*corev1.Pod) (n int) {
	for _, p := range pods {
		if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			n++
		}
	}
	return n
}

// step has a group hear of something, and does what it decides. The caller holds mu.
func (b *Bridge) step(g *group, e queue.Event) {
	var actions []queue.Action
	var at time.Time
	now := time.Now()
	before := g.state.Pods
	g.state, actions, at = queue.Step(g.state, e, now)
	b.term.wakeFor(g, before)
	for _, a := range actions {
		b.do(g, a)
	}
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	t := b.term
	if g.state.Done() && !g.kept {
		for _, j := range g.state.Jobs {
			delete(t.cluster(g.cluster).jobs, j.ID)
		}
		delete(t.groups, g.state.UID)
		return
	}
	if !at.IsZero() {
		g.timer = time.AfterFunc(max(at.Sub(now), 10*time.Millisecond), func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.term == t && t.groups[g.state.UID] == g {
				b.step(g, queue.Tick{})
			}
		})
	}
}

// do takes an action. The caller holds mu.
func (b *Bridge) do(g *group, a queue.Action) {
	t := b.term
	switch a := a.(type) {
	case queue.Send:
		b.send(t, g, a.Order)
	case queue.Avoid:
		t.avoid(g, a.Node, time.Now())
	case queue.Bind:
		t.bind(types.UID(a.UID), a, g)
	case queue.Delete:
		t.bind(types.UID(a.UID), a, g)
	case queue.AskOwner:
		if len(g.owners.all) > 0 || g.podGroup != (watched{}) {
			t.bind(types.UID("owner of "+g.state.UID), a, g) // no pod's
		}
	case queue.Say:
		b.say(g.pods[types.UID(a.UID)], a.Reason, a.Note, a.Warning)
	}
}

// noNodeFits is said of pods whose job can have none of the nodes that are there.
const noNodeFits = "No node that is there fits the pod's node selector, affinity and tolerations. Slurm is asked for one that is off, as an elastic set has them."

// send has a gateway carry an order out. A job asks for no node on which its pods cannot be. The caller holds mu.
func (b *Bridge) send(t *term, g *group, o wire.Order) {
	if o.Kind == wire.Submit {
		list, none := b.exclude(t, g, time.Now())
		for _, p := range g.pods {
			if none && queue.Gated(p) {
				b.say(p, "NoNodeFits", noNodeFits, true)
			}
		}
		if list != "" {
			o.Args = append(slices.Clone(o.Args), "--exclude="+list)
		}
	}
	b.sent[o.Kind]++
	t.cluster(g.cluster).give(&order{Order: o, group: g.state.UID})
}

// say makes an event of a pod.
func (b *Bridge) say(p *corev1.Pod, reason, note string, warning bool) {
	if p == nil {
		return
	}
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	b.told.Put(eventKey{p.UID, reason}, events.Event{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Type:      kind, Reason: reason, Note: note, Action: "Queue", About: strconv.FormatInt(time.Now().Unix()/60, 10),
	})
}

// Stats are the groups by phase, and the orders that were given.
func (b *Bridge) Stats() (phases map[queue.Phase]int, sent map[wire.OrderKind]uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	phases, sent = map[queue.Phase]int{}, maps.Clone(b.sent)
	if b.term != nil {
		for _, g := range b.term.groups {
			phases[g.state.Phase()]++
		}
	}
	return phases, sent
}
