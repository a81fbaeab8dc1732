package scalein

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/controller/internal/reports"
)

// What the marks cost kube-apiserver. A job that begins on a node is one patch, and one that ends another:
// a read and a write of the pod's 10 kB in etcd, and an event for each watcher of it (the kubelet, the
// scheduler, two of kube-controller-manager's controllers, this controller). That is some 2 ms of its
// processor time. 20 patches in a second are thus 4 % of a core at most, and 200 kB/s in etcd. 10,000 pods
// that become busy at once take 500 s, and those that become cheaper wait behind those that become dearer.
// A pod that changes while it waits is written once, and one that is back where it was not at all.
const (
	patches      = 20
	burst        = 50
	leastIdle    = 5 * time.Second // jobs that follow one another cost no patches
	againAfter   = 5 * time.Second
	patchTimeout = 5 * time.Second // less than a new leader waits for the Lease
)

// Marker writes the marks.
type Marker struct {
	Settings
	api     kubernetes.Interface
	watcher *pods.Watcher
	reports *reports.Reports
	log     *slog.Logger
	limit   flowcontrol.RateLimiter

	// Patches counts those that were sent, and Failed those that were not taken.
	Patches, Failed atomic.Uint64

	queue queue
}

// New makes a Marker. It works in Lead alone.
func New(api kubernetes.Interface, w *pods.Watcher, r *reports.Reports, s Settings, log *slog.Logger) (*Marker, error) {
	m := &Marker{
		Settings: s, api: api, watcher: w, reports: r, log: log, limit: flowcontrol.NewTokenBucketRateLimiter(patches, burst),
		queue: newQueue(),
	}
	r.Notify(m.reported)
	return m, w.OnPods(func(p *pods.Pod) {
		if p.Slurmd() {
			m.queue.look(p.Key())
		}
	})
}

// reported looks at the pods of nodes that have changed; no names are all.
func (m *Marker) reported(cluster string, names []string) {
	changed := make(map[string]bool, len(names))
	for _, name := range names {
		changed[name] = true
	}
	for _, p := range m.watcher.InCluster(cluster) {
		if p.Slurmd() && (len(names) == 0 || changed[p.Hostname]) {
			m.queue.look(p.Key())
		}
	}
}

// Lead writes marks until ctx ends.
func (m *Marker) Lead(ctx context.Context) {
	m.queue.open(true)
	defer m.queue.open(false)
	for _, p := range m.watcher.All() { // what came before is not in the queue
		if p.Slurmd() {
			m.queue.look(p.Key())
		}
	}
	for {
		key, wait := m.queue.next(time.Now())
		if key != "" {
			m.mark(ctx, key)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-m.queue.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// mark gives a pod its marks, if slurmctld's agent has told of its node.
func (m *Marker) mark(ctx context.Context, key string) {
	p := m.watcher.Get(key)
	if p == nil || !p.Slurmd() || !m.watcher.Holds(p) {
		return
	}
	told, since, known := m.reports.Node(p.Cluster(), p.Hostname)
	if !known {
		return
	}
	want := m.marks(p, told.State)
	if want == p.Marks {
		return
	}
	if cheaper(p.Marks, want) {
		if at := since.Add(leastIdle); at.After(time.Now()) {
			m.queue.lookAt(key, at)
			return
		}
		if m.queue.urgent() { // the tokens are for them
			m.queue.lookAt(key, time.Now().Add(time.Second))
			return
		}
	}
	body, err := patch(p, want, told.State, time.Now())
	if err == nil {
		err = m.limit.Wait(ctx)
	}
	if err == nil {
		err = m.send(ctx, p, body)
	}
	if err != nil && ctx.Err() == nil {
		m.Failed.Add(1)
		m.log.Warn("cannot mark a pod", "namespace", p.Namespace, "pod", p.Name, slog.Any("error", err))
		m.queue.lookAt(key, time.Now().Add(againAfter))
	}
}

func (m *Marker) send(ctx context.Context, p *pods.Pod, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	m.Patches.Add(1)
	_, err := m.api.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, patchType, body, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone, and a pod of its name is another one
	}
	return err
}
