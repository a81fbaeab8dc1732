// Package refresh has kubelets deliver changed ConfigMaps to slurmctlds' pods at once. A kubelet looks at a pod's volumes
// about once a minute, and when the pod changes. So the leader changes an annotation of the pod, and changes it again if
// slurmctld's agent does not report the new files: the pod's change may come to the kubelet before the ConfigMap's.
//
// It watches the ConfigMaps that a setting names, each by itself, because RBAC can name them, too.
package refresh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/slurmlet/slurmlet/controller/internal/events"
	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/controller/internal/reports"
	"github.com/slurmlet/slurmlet/internal/kit/confset"
)

// waits are how long slurmctld's agent has to report the files after each change of the annotation. An event follows the
// last one.
var waits = []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second}

// leastPause is the least time between two edits' first changes of the annotation: a ConfigMap that changes all the time
// costs two patches in a second.
const leastPause = 500 * time.Millisecond

// Parse reads namespace/name,namespace/name…, or none. Its error names every fault.
func Parse(text string) (names []types.NamespacedName, err error) {
	if text == "none" {
		return nil, nil
	}
	var faults []error
	for one := range strings.SplitSeq(text, ",") {
		namespace, name, _ := strings.Cut(one, "/")
		n := types.NamespacedName{Namespace: namespace, Name: name}
		switch {
		case len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0:
			faults = append(faults, fmt.Errorf("want namespace/name of a ConfigMap, not %q", one))
		case slices.Contains(names, n):
			faults = append(faults, fmt.Errorf("%s is named twice", one))
		}
		names = append(names, n)
	}
	return names, errors.Join(faults...)
}

// Refresher changes the annotation. It works in Lead alone.
type Refresher struct {
	api     kubernetes.Interface
	names   []types.NamespacedName
	watcher *pods.Watcher
	reports *reports.Reports
	log     *slog.Logger
	events  *events.Queue[types.UID]
}

// New makes a Refresher for the ConfigMaps of these names.
func New(api kubernetes.Interface, names []types.NamespacedName, w *pods.Watcher, r *reports.Reports, log *slog.Logger) *Refresher {
	return &Refresher{api: api, names: names, watcher: w, reports: r, log: log, events: events.NewQueue[types.UID]()}
}

// configMap is what the controller keeps of a ConfigMap: no file's text.
type configMap struct {
	metav1.ObjectMeta // without labels, annotations, owners and managers
	// digest is that of the files without keys (confset.TextsDigest); empty where slurm.conf is not among them: the agent
	// reports no other directory.
	digest string
}

// trim makes a configMap of Kubernetes' one.
func trim(object any) (any, error) {
	from, is := object.(*corev1.ConfigMap)
	if !is {
		return object, nil // trimmed already
	}
	m := &configMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: from.Namespace, Name: from.Name, UID: from.UID, ResourceVersion: from.ResourceVersion,
	}}
	if _, is := from.Data[confset.Main]; !is {
		return m, nil
	}
	files := make(map[string][]byte, len(from.Data))
	for name, text := range from.Data {
		files[name] = []byte(text)
	}
	maps.Copy(files, from.BinaryData)
	m.digest = confset.TextsDigest(files)
	return m, nil
}

// term is a time of leadership.
type term struct {
	*Refresher
	queue workqueue.TypedDelayingInterface[types.NamespacedName]

	mu    sync.Mutex
	edits map[types.NamespacedName]*edit
}

// edit is the newest version of a ConfigMap.
type edit struct {
	*configMap
	// due is when to look whether it has arrived. The annotation was changed tries times for it, and last at touched.
	due, touched time.Time
	tries        int
}

// Lead watches, and changes annotations, until ctx ends. reporter is the replica's name.
func (r *Refresher) Lead(ctx context.Context, reporter string) {
	t := &term{Refresher: r, queue: workqueue.NewTypedDelayingQueue[types.NamespacedName](), edits: map[types.NamespacedName]*edit{}}
	var running sync.WaitGroup
	defer running.Wait()
	for _, name := range r.names {
		running.Go(func() { t.watch(ctx, name) })
	}
	running.Go(func() { r.events.Write(ctx, r.api, reporter, eventRate, eventBurst, r.log) })
	defer context.AfterFunc(ctx, t.queue.ShutDown)()
	for {
		name, over := t.queue.Get()
		if over {
			return
		}
		t.look(ctx, name, time.Now())
		t.queue.Done(name)
	}
}

// eventRate is how many events a second the leader writes, and eventBurst how many at once.
const eventRate, eventBurst = 1, 10

// watch takes each version of a ConfigMap until ctx ends.
func (t *term) watch(ctx context.Context, name types.NamespacedName) {
	factory := informers.NewSharedInformerFactoryWithOptions(t.api, 0, informers.WithNamespace(name.Namespace), informers.WithTransform(trim),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + name.Name }))
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { t.take(name, now.(*configMap), time.Now()) },
		UpdateFunc: func(_, now any) { t.take(name, now.(*configMap), time.Now()) },
	})
	if err != nil {
		t.log.Error("cannot watch a ConfigMap", "configMap", name.String(), slog.Any("error", err))
		return
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) && len(informer.GetStore().ListKeys()) == 0 {
			t.log.Warn("there is no such ConfigMap: its changes wait for the kubelet", "configMap", name.String())
		}
	}()
	informer.RunWithContext(ctx)
}

// take takes a version. The first one that this leader hears of is most likely an old one, so the agent has time to
// report it.
func (t *term) take(name types.NamespacedName, now *configMap, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, next := t.edits[name], &edit{configMap: now, due: at}
	switch {
	case last == nil:
		next.due = at.Add(waits[0])
	case last.UID == now.UID && last.digest == now.digest && (now.digest != "" || last.ResourceVersion == now.ResourceVersion):
		return // a label or an annotation
	default:
		next.touched = last.touched
		if soonest := last.touched.Add(leastPause); at.Before(soonest) {
			next.due = soonest
		}
	}
	t.edits[name] = next
	t.queue.AddAfter(name, next.due.Sub(at))
}

// look changes the annotation of the pods whose agents have not reported the newest version.
func (t *term) look(ctx context.Context, name types.NamespacedName, now time.Time) {
	t.mu.Lock()
	e := t.edits[name]
	wait := e.due.Sub(now)
	t.mu.Unlock()
	if wait > 0 {
		t.queue.AddAfter(name, wait) // the queue had an older time
		return
	}
	late := t.late(e.configMap)
	if len(late) == 0 {
		return
	}
	if e.tries == len(waits) {
		t.tell(e.configMap, late)
		return
	}
	for _, p := range late {
		if err := t.touch(ctx, p, e); err != nil && ctx.Err() == nil {
			t.log.Warn("cannot have the kubelet deliver a ConfigMap", "configMap", name.String(), "pod", p.Name, slog.Any("error", err))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e.touched, e.due = now, now.Add(waits[e.tries])
	e.tries++
	if next := t.edits[name]; next != e { // it came meanwhile
		next.touched = now
	}
	t.queue.AddAfter(name, e.due.Sub(now))
}

// late are the pods of slurmctld that mount a ConfigMap and have not reported its files.
func (t *term) late(m *configMap) (late []*pods.Pod) {
	for _, p := range t.watcher.All() {
		mounts := p.Namespace == m.Namespace && slices.Contains(p.ConfigMaps, m.Name)
		if mounts && !p.Over && p.DeletionTimestamp == nil && (m.digest == "" || t.reports.Conf(p.Cluster()) != m.digest) {
			late = append(late, p)
		}
	}
	return late
}
