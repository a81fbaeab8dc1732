package elastic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"github.com/slurmlet/slurmlet/controller/internal/namespaces"
	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/controller/internal/reports"
	"github.com/slurmlet/slurmlet/internal/kit/role"
)

const (
	// atOnce is how many requests are under way: a rate of 50 a second whose answers take a second each.
	atOnce = 64
	// timeout bounds a request. A former leader's last one is over before another one leads
	// (leaseDuration - renewDeadline in package controller).
	timeout = 5 * time.Second
	// settle is when a pod that this leader has made or deleted is looked at again, though the watch has not
	// told of it.
	settle = 30 * time.Second
	// rounds is when everything is looked at, though nothing has changed.
	rounds = time.Minute
	// probe is when a node looks again whether a refused set takes pods.
	probe = 250 * time.Millisecond
	// young is how long a leader has known a wanted node's pod at most whose end counts as a death, and firstRest and
	// lastRest bound the pauses after several of them in a row.
	young     = time.Minute
	firstRest = time.Second
	lastRest  = 5 * time.Minute
	// mostClashes is how often a name may be taken by a pod that the watch does not know.
	mostClashes = 3
)

// Settings say where pods are made, and how quickly.
type Settings struct {
	// On: pods are made and deleted in the namespaces of In.
	On bool
	In namespaces.Set
	// QPS is how many pods are made or deleted in a second, and Burst how many at once.
	QPS   float32
	Burst int
}

// serves says whether pods are made and deleted in a namespace.
func (s Settings) serves(namespace string) bool {
	return s.On && s.In.Has(namespace)
}

// Maker makes and deletes pods.
type Maker struct {
	Settings
	api     kubernetes.Interface
	watcher *pods.Watcher
	reports *reports.Reports
	log     *slog.Logger
	name    string
	limit   flowcontrol.RateLimiter

	templates *namespaces.Informers
	known     cache.InformerSynced

	// Made and Deleted count pods, Refused and Failed requests that Kubernetes refused or did not answer, and
	// Waited is the time, in nanoseconds, that requests waited for the rate.
	Made, Deleted, Refused, Failed atomic.Uint64
	Waited                         atomic.Int64

	refusals *refusedSets

	mu sync.Mutex
	// queue is nil while this replica does not lead.
	queue workqueue.TypedDelayingInterface[key]
	nodes map[key]*memory
	gates map[set]*gate
	// jams are by cluster.
	jams map[string]*jam
}

// key is a node of a cluster.
type key struct{ namespace, cluster, node string }

func (k key) pod() string { return k.namespace + "/" + k.node }

// in is the cluster's name, as reports have it.
func (k key) in() string { return k.namespace + "/" + k.cluster }

// New makes a Maker, which works in Lead alone. It limits its requests itself.
func New(api kubernetes.Interface, w *pods.Watcher, r *reports.Reports, s Settings, name string, log *slog.Logger) (*Maker, error) {
	m := &Maker{
		Settings: s, api: api, watcher: w, reports: r, log: log, name: name,
		limit: flowcontrol.NewTokenBucketRateLimiter(s.QPS, s.Burst), refusals: newRefusedSets(), nodes: map[key]*memory{}, gates: map[set]*gate{}, jams: map[string]*jam{},
	}
	templates, err := s.In.Informers(func(namespace string) (cache.SharedIndexInformer, error) {
		all := informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithNamespace(namespace), informers.WithTransform(trim),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = pods.ClusterLabel + "," + pods.ElasticLabel }))
		return all.Core().V1().PodTemplates().Informer(), nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot watch Kubernetes' PodTemplates: %w", err)
	}
	m.templates = templates
	indexErr := templates.AddIndexers(cache.Indexers{bySet: func(object any) ([]string, error) { return []string{of(object.(*corev1.PodTemplate)).String()}, nil }})
	m.known, err = templates.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(now any) { m.templateChanged(now.(*corev1.PodTemplate)) },
		UpdateFunc: func(last, now any) {
			m.templateChanged(last.(*corev1.PodTemplate))
			m.templateChanged(now.(*corev1.PodTemplate))
		},
		DeleteFunc: func(last any) {
			if unknown, is := last.(cache.DeletedFinalStateUnknown); is {
				last = unknown.Obj
			}
			m.templateChanged(last.(*corev1.PodTemplate))
		},
	})
	if err := errors.Join(indexErr, err); err != nil {
		return nil, fmt.Errorf("cannot watch Kubernetes' PodTemplates: %w", err)
	}
	r.Notify(m.reported)
	return m, w.OnPods(func(p *pods.Pod) { m.podChanged(p) })
}

const bySet = "set"

// trim drops what nobody reads.
func trim(object any) (any, error) {
	if t, is := object.(*corev1.PodTemplate); is {
		t.ManagedFields = nil
	}
	return object, nil
}

// Run watches the PodTemplates until ctx ends.
func (m *Maker) Run(ctx context.Context) { m.templates.Run(ctx) }

// templateChanged looks at the nodes of a set anew, whose last refusal may be over.
func (m *Maker) templateChanged(t *corev1.PodTemplate) {
	s := of(t)
	m.mu.Lock()
	delete(m.gates, s)
	m.mu.Unlock()
	m.lookAll(s.in(), s.name)
}

func (m *Maker) podChanged(p *pods.Pod) {
	if p.Label.Value() != "" {
		m.look(key{p.Namespace, p.Label.Value(), p.Name})
	}
}

// reported looks at the nodes that have changed; no names are all.
func (m *Maker) reported(cluster string, names []string) {
	if len(names) == 0 {
		m.lookAll(cluster, "")
		return
	}
	namespace, label, _ := strings.Cut(cluster, "/")
	for _, name := range names {
		m.look(key{namespace, label, name})
	}
}

// lookAll looks at all nodes of a cluster, or those of one set.
func (m *Maker) lookAll(cluster, of string) {
	nodes, _ := m.reports.Elastic(cluster)
	namespace, label, _ := strings.Cut(cluster, "/")
	for _, n := range nodes {
		if of == "" || n.Elastic == of {
			m.look(key{namespace, label, n.Name})
		}
	}
}

func (m *Maker) look(k key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queue != nil {
		m.queue.Add(k)
	}
}

func (m *Maker) lookAt(k key, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queue != nil {
		m.queue.AddAfter(k, max(time.Until(at), 10*time.Millisecond))
	}
}

// Lead makes and deletes pods until ctx ends.
func (m *Maker) Lead(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), m.watcher.HasSynced, m.known) {
		return
	}
	queue := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[key]{})
	m.mu.Lock()
	m.queue, m.nodes, m.gates, m.jams = queue, map[key]*memory{}, map[set]*gate{}, map[string]*jam{}
	m.mu.Unlock()
	var working sync.WaitGroup
	for range atOnce {
		working.Go(func() { m.work(ctx, queue) })
	}
	working.Go(func() { m.refusals.write(ctx, m.api, m.name, m.log) })
	tick := time.NewTicker(rounds)
	defer tick.Stop()
	for ctx.Err() == nil {
		clusters := m.reports.Clusters()
		m.forgetAllBut(clusters)
		for _, cluster := range clusters {
			m.lookAll(cluster, "")
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	m.mu.Lock()
	m.queue, m.nodes, m.gates, m.jams = nil, map[key]*memory{}, map[set]*gate{}, map[string]*jam{}
	m.mu.Unlock()
	queue.ShutDown()
	working.Wait()
}

// forgetAllBut forgets the clusters of which nobody has told lately: one that was uninstalled has no troubles.
func (m *Maker) forgetAllBut(clusters []string) {
	m.refusals.forgetAllBut(clusters)
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.nodes, func(k key, _ *memory) bool { return !slices.Contains(clusters, k.in()) })
	maps.DeleteFunc(m.gates, func(s set, _ *gate) bool { return !slices.Contains(clusters, s.in()) })
	maps.DeleteFunc(m.jams, func(cluster string, _ *jam) bool { return !slices.Contains(clusters, cluster) })
}

func (m *Maker) work(ctx context.Context, queue workqueue.TypedDelayingInterface[key]) {
	for {
		k, end := queue.Get()
		if end {
			return
		}
		m.take(ctx, k)
		queue.Done(k)
	}
}

// take does what is to be done about a node.
func (m *Maker) take(ctx context.Context, k key) {
	if m.decide(k, time.Now()).Action == Nothing || ctx.Err() != nil {
		return
	}
	began := time.Now()
	if m.limit.Wait(ctx) != nil {
		return // another replica leads
	}
	m.Waited.Add(int64(time.Since(began)))
	switch step := m.decide(k, time.Now()); step.Action { // the wait may have been long
	case Create:
		m.create(ctx, k)
	case Delete:
		m.delete(ctx, k, step.UID)
	}
}

// decide looks at a node, and remembers what it sees.
func (m *Maker) decide(k key, now time.Time) Step {
	told, _, known := m.reports.Node(k.in(), k.node)
	pod := m.watcher.Get(k.pod())
	m.mu.Lock()
	defer m.mu.Unlock()
	mem := m.nodes[k]
	switch {
	case mem == nil && (!known || told.Elastic == ""):
		return Step{} // most pods
	case mem == nil:
		mem = &memory{}
	}
	mem.see(pod, told.Wanted, now)
	if known && told.Elastic != "" && !told.Wanted {
		mem.unwant(pod)
	}
	v := View{
		Known: known, Elastic: told.Elastic != "", Wanted: told.Wanted, Pod: mem.view(pod, k), Made: mem.made != "", Rest: mem.rest, Died: mem.died,
		Held: m.held(k, mem, pod, now), Excluded: !m.serves(k.namespace),
	}
	s := set{k.namespace, k.cluster, told.Elastic}
	if v.Known && v.Wanted && v.Elastic && v.Pod == nil {
		v.Refused, v.Until = m.refusal(s, mem, now)
	}
	step := Decide(v, now)
	if mem.keep(step, v, now); mem.forgotten(v) {
		delete(m.nodes, k)
	} else {
		m.nodes[k] = mem
	}
	if !step.Again.IsZero() && m.queue != nil {
		m.queue.AddAfter(k, max(step.Again.Sub(now), 10*time.Millisecond))
	}
	if (mem.made != "" || mem.deleted != "") && m.queue != nil {
		m.queue.AddAfter(k, mem.settled.Sub(now))
	}
	return step
}

// refusal is why no pod of a set can be made now. The caller holds mu.
func (m *Maker) refusal(s set, mem *memory, now time.Time) (*Trouble, time.Time) {
	if _, trouble := m.template(s); trouble != nil {
		return trouble, time.Time{}
	}
	g := m.gates[s]
	switch {
	case mem.clashes >= mostClashes:
		return &Trouble{Reason: failedCreate, Note: "a pod has the node's name, and is no pod of a cluster"}, mem.settled
	case mem.clashes > 0:
		return nil, mem.settled
	case g == nil:
		return nil, time.Time{}
	case g.probing && now.After(g.until):
		return g.trouble, now.Add(probe)
	}
	return g.trouble, g.until
}

// template is the one of a set.
func (m *Maker) template(s set) (*corev1.PodTemplate, *Trouble) {
	if !m.serves(s.namespace) {
		return nil, &Trouble{Reason: noTemplate, Note: "the controller makes no pods in the namespace " + s.namespace + ": elastic.namespaces of the chart slurmlet lacks it"}
	}
	objects, err := m.templates.ByIndex(bySet, s.String())
	if err != nil {
		m.log.Error("cannot find a PodTemplate", "set", s.String(), slog.Any("error", err))
	}
	all := make([]*corev1.PodTemplate, len(objects))
	for i, o := range objects {
		all[i] = o.(*corev1.PodTemplate)
	}
	t, trouble := choose(s, all)
	if trouble != nil {
		m.refusals.note(s, *trouble, func() corev1.ObjectReference { return m.subject(s, t) })
	}
	return t, trouble
}

// subject is what an event about a set regards: its PodTemplate, or without one the pod of slurmctld.
func (m *Maker) subject(s set, t *corev1.PodTemplate) corev1.ObjectReference {
	if t != nil {
		return corev1.ObjectReference{APIVersion: "v1", Kind: "PodTemplate", Namespace: t.Namespace, Name: t.Name, UID: t.UID}
	}
	for _, p := range m.watcher.InCluster(s.in()) {
		if p.Role.Value() == role.Slurmctld && p.DeletionTimestamp == nil && !p.Over {
			return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
		}
	}
	return corev1.ObjectReference{}
}
