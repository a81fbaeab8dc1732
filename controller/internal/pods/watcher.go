// Package pods turns the pods and nodes of Kubernetes into the peers of each cluster, and tells on a
// pod's own events why it is none.
package pods

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/controller/internal/namespaces"
	"github.com/slurmlet/slurmlet/controller/internal/tokens"
	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Tables are the clusters' tables: a peerserver.Server.
type Tables interface {
	Put(cluster string, claim peerserver.Claim) (*peerserver.Conflict, error)
	Delete(cluster, uid string, lost bool) (successor string)
	SetSelf(cluster, uid string, self wire.Self) error
}

// Watcher keeps Tables as Kubernetes tells of its pods and nodes.
type Watcher struct {
	tables  Tables
	log     *slog.Logger
	pods    *namespaces.Informers
	nodes   cache.SharedIndexInformer
	sources []*source // of nodes and pods
	// podsKnown and nodesKnown say whether the handlers have had all that there was at the start.
	podsKnown, nodesKnown cache.InformerSynced
	faults                *faults
	// lines bounds how many faults are logged.
	lines flowcontrol.RateLimiter
	// namespaces hears when a pod comes into a namespace that had none.
	namespaces chan struct{}

	mu       sync.Mutex
	known    map[types.UID]*entry
	machines map[string]*machinePods
	inside   map[string]int // pods by namespace
}

// entry is a pod, and what the tables have of it.
type entry struct {
	pod *Pod
	// cluster is the one that has the pod as a peer; empty while none has.
	cluster string
}

func (e *entry) uid() string { return string(e.pod.UID) }

// machinePods are the pods of a machine.
type machinePods struct {
	pods map[types.UID]*entry
	// there: Kubernetes has the node now. gone: it had it, and deleted it.
	there, gone bool
	// now is the machine, while it is there.
	now machines.Machine
}

// New makes a Watcher that watches from Run on. It knows pods of the given namespaces alone.
func New(api kubernetes.Interface, in namespaces.Set, tables Tables, rules *machines.Rules, log *slog.Logger) (*Watcher, error) {
	w := &Watcher{
		tables: tables, log: log, faults: newFaults(), lines: flowcontrol.NewTokenBucketRateLimiter(eventRate, eventBurst), namespaces: make(chan struct{}, 1),
		known: map[types.UID]*entry{}, machines: map[string]*machinePods{}, inside: map[string]int{},
	}
	var podsErr, nodesErr error
	w.nodes, nodesErr = informer(w.source(false), api, api.CoreV1().Nodes(), &corev1.Node{}, "", trimNode(rules))
	w.pods, podsErr = in.Informers(func(namespace string) (cache.SharedIndexInformer, error) {
		return informer(w.source(!in.All()), api, api.CoreV1().Pods(namespace), &corev1.Pod{}, ClusterLabel, trimPod)
	})
	if err := errors.Join(podsErr, nodesErr); err != nil {
		return nil, fmt.Errorf("cannot watch Kubernetes' pods and nodes: %w", err)
	}
	pods, err := w.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { w.put(now.(*Pod)) },
		UpdateFunc: w.podChanged,
		DeleteFunc: func(last any) { w.remove(final(last).(*Pod)) },
	})
	nodes, handlersErr := w.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { w.machineIs(now.(*machine)) },
		UpdateFunc: func(_, now any) { w.machineIs(now.(*machine)) },
		DeleteFunc: func(last any) { w.machineGone(final(last).(*machine)) },
	})
	if err := errors.Join(err, handlersErr); err != nil {
		return nil, fmt.Errorf("cannot watch Kubernetes' pods and nodes: %w", err)
	}
	if err := w.pods.AddIndexers(indexers); err != nil {
		return nil, fmt.Errorf("cannot index Kubernetes' pods: %w", err)
	}
	w.podsKnown, w.nodesKnown = pods, nodes.HasSynced
	return w, nil
}

// source makes one more. New alone calls it.
func (w *Watcher) source(bounded bool) *source {
	s := &source{bounded: bounded}
	w.sources = append(w.sources, s)
	return s
}

// final is the last that is known of a deleted object.
func final(last any) any {
	if unknown, is := last.(cache.DeletedFinalStateUnknown); is {
		return unknown.Obj
	}
	return last
}

// Run watches until ctx ends. It calls synced when the tables have all that there was at the start.
func (w *Watcher) Run(ctx context.Context, synced func()) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { w.nodes.RunWithContext(ctx) })
	// Without the machines, a pod of a machine that is off would look alive.
	if !cache.WaitForCacheSync(ctx.Done(), w.nodesKnown) {
		return
	}
	running.Go(func() { w.pods.Run(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), w.podsKnown) {
		w.log.Info("Kubernetes' pods and nodes are known", "pods", len(w.pods.List()), "nodes", len(w.nodes.GetStore().ListKeys()))
		synced()
	}
}

// Silent is since when Kubernetes lets nobody watch its pods or nodes; zero while it does. A watch that stands
// and says nothing is none of this: nothing may have changed.
func (w *Watcher) Silent() (since time.Time) {
	for _, s := range w.sources {
		if at := s.silent(); !at.IsZero() && (since.IsZero() || at.Before(since)) {
			since = at
		}
	}
	return since
}

// Find is the pod of a namespace and a name, if it has that UID and may read its cluster's table.
func (w *Watcher) Find(namespace, name, uid string) (tokens.Pod, bool) {
	p, there := w.pods.Get(namespace, name).(*Pod)
	if !there || string(p.UID) != uid || p.fault() != nil || p.Over {
		return tokens.Pod{}, false
	}
	id := peerserver.Identity{Cluster: p.Cluster(), Pod: namespace + "/" + name, UID: uid, Role: p.Role.Value(), Gateway: p.Gateway}
	return tokens.Pod{Identity: id, Addresses: p.Addresses}, true
}

// Namespaces are those that have pods of clusters.
func (w *Watcher) Namespaces() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]string, 0, len(w.inside))
	for namespace := range w.inside {
		all = append(all, namespace)
	}
	return all
}

// NewNamespaces is told when Namespaces has one more.
func (w *Watcher) NewNamespaces() <-chan struct{} { return w.namespaces }

// podChanged: a pod that was deleted and made again between two looks comes as one change.
func (w *Watcher) podChanged(last, now any) {
	if old := last.(*Pod); old.UID != now.(*Pod).UID {
		w.remove(old)
	}
	w.put(now.(*Pod))
}

func (w *Watcher) put(p *Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.known[p.UID]
	if e == nil {
		e = &entry{}
		w.known[p.UID] = e
		if news, is := p.news(time.Now()); is {
			w.faults.tell(p, news, p.CreationTimestamp.Add(newsTime))
		}
		w.inside[p.Namespace]++
		if w.inside[p.Namespace] == 1 {
			select {
			case w.namespaces <- struct{}{}:
			default: // told already
			}
		}
	} else if e.pod.Machine != p.Machine {
		w.leave(e)
	}
	e.pod = p
	if name := p.Machine.Value(); name != "" {
		w.machine(name).pods[p.UID] = e
	}
	w.judge(e)
}

func (w *Watcher) remove(p *Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.known[p.UID]
	if e == nil {
		return
	}
	m := w.machines[e.pod.Machine.Value()]
	never := m != nil && !m.there && !m.gone && time.Since(p.CreationTimestamp.Time) > settled
	isLost := lost(m) || never
	w.leave(e)
	delete(w.known, p.UID)
	w.faults.gone(p.UID)
	w.withdraw(e, isLost)
	if w.inside[p.Namespace]--; w.inside[p.Namespace] == 0 {
		delete(w.inside, p.Namespace)
	}
}

func (w *Watcher) machineIs(now *machine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.machine(now.Name)
	if m.there && m.now.Equal(now.Machine) {
		return
	}
	if len(now.Faults) > 0 && !slices.Equal(m.now.Faults, now.Faults) {
		w.log.Warn("labels of a machine are no words for Slurm", "machine", now.Name, "faults", now.Faults)
	}
	m.there, m.gone, m.now = true, false, now.Machine
	for _, e := range m.pods {
		w.judge(e)
	}
}

func (w *Watcher) machineGone(last *machine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.machine(last.Name)
	m.there, m.gone, m.now = false, true, machines.Machine{}
	for _, e := range m.pods {
		w.judge(e)
	}
	w.forgetMachine(last.Name, m)
}

// machine finds or makes the record of the pods of a machine.
func (w *Watcher) machine(name string) *machinePods {
	m := w.machines[name]
	if m == nil {
		m = &machinePods{pods: map[types.UID]*entry{}}
		w.machines[name] = m
	}
	return m
}

// leave takes a pod off its machine.
func (w *Watcher) leave(e *entry) {
	name := e.pod.Machine.Value()
	if m := w.machines[name]; m != nil {
		delete(m.pods, e.pod.UID)
		w.forgetMachine(name, m)
	}
}

func (w *Watcher) forgetMachine(name string, m *machinePods) {
	if !m.there && len(m.pods) == 0 {
		delete(w.machines, name)
	}
}

// lost: Kubernetes takes all on the machine for ended, as it does when it deletes the machine's pods by
// itself (kubernetes.io/docs/concepts/cluster-administration/node-shutdown).
func lost(m *machinePods) bool { return m != nil && (m.gone || m.now.OutOfService) }

// judge makes a pod a peer, or takes it out, and notes why it is none.
func (w *Watcher) judge(e *entry) {
	p := e.pod
	if e.cluster != "" && e.cluster != p.Cluster() {
		w.withdraw(e, false)
	}
	fault, isLost := p.fault(), lost(w.machines[p.Machine.Value()])
	if fault != nil || p.Over || isLost {
		w.withdraw(e, isLost)
		w.note(p, fault)
		return
	}
	conflict, err := w.tables.Put(p.Cluster(), p.claim())
	if err != nil {
		w.withdraw(e, false)
		w.note(p, &Fault{badName, fmt.Sprintf("No agent is told the pod's name: %v.", err)})
		return
	}
	e.cluster = p.Cluster()
	if err := w.tables.SetSelf(e.cluster, e.uid(), w.self(p)); err != nil {
		w.log.Error("cannot tell a pod what Kubernetes knows of it", "namespace", p.Namespace, "pod", p.Name, slog.Any("error", err))
	}
	if conflict == nil || conflict.Refused != e.uid() {
		w.note(p, nil)
	}
	if conflict != nil {
		w.noteConflict(conflict)
	}
}

// self is what Kubernetes knows of a pod.
func (w *Watcher) self(p *Pod) wire.Self {
	self := wire.Self{Machine: p.Machine.Value()}
	if m := w.machines[self.Machine]; m != nil && m.there {
		self = m.now.Self
	}
	if p.DeletionTimestamp != nil {
		// The API server adds the grace period that the deletion grants, which an eviction, an autoscaler or
		// a handler of spot instances may have cut.
		self.Deadline = p.DeletionTimestamp.UTC()
		if granted := p.DeletionGracePeriodSeconds; granted != nil {
			self.GraceSeconds = *granted
		}
	}
	return self
}

// noteConflict tells the pod that does not have its name which one has.
func (w *Watcher) noteConflict(c *peerserver.Conflict) {
	refused, holder := w.known[types.UID(c.Refused)], w.known[types.UID(c.Holder)]
	if refused == nil || holder == nil {
		return
	}
	w.note(holder.pod, nil)
	w.note(refused.pod, &Fault{nameTaken, fmt.Sprintf("The pod %s has the name %s in this cluster, so no agent is told this pod's address.", holder.pod.Name, c.Name)})
}

func (w *Watcher) withdraw(e *entry, lost bool) {
	if e.cluster == "" {
		return
	}
	successor := w.known[types.UID(w.tables.Delete(e.cluster, e.uid(), lost))]
	e.cluster = ""
	if successor != nil {
		w.note(successor.pod, nil) // it has the name now
	}
}

// note keeps why a pod is no peer; nil: it is one. Events tell of all faults, and the log of some a second: a
// Deployment with one host name for all its pods has as many faults as pods.
func (w *Watcher) note(p *Pod, f *Fault) {
	if f == nil {
		w.faults.forget(p.UID)
		return
	}
	if w.faults.note(p, *f) && w.lines.TryAccept() {
		w.log.Warn("a pod is no peer", "namespace", p.Namespace, "pod", p.Name, "reason", f.Reason, "fault", f.Note)
	}
}
