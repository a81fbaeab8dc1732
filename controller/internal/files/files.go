// Package files streams the ConfigMaps that hold clusters' slurm.conf to slurmctlds' agents, as soon as
// they change. It watches the ConfigMaps that a setting names, each by itself: so RBAC can name them, too.
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Label is a ConfigMap's: its value is that of the label slurmlet.dev/cluster of the cluster's pods.
const Label = "slurmlet.dev/conf"

// Tables tell slurmctlds' agents: a peerserver.Server.
type Tables interface {
	SetFiles(cluster string, files *peerserver.EncodedFiles) error
}

// Watcher tells Tables of ConfigMaps.
type Watcher struct {
	tables    Tables
	log       *slog.Logger
	names     []types.NamespacedName
	informers []cache.SharedIndexInformer
	faults    *faults

	mu sync.Mutex
	// clusters has those that ConfigMaps claim.
	clusters map[string]*cluster
	// histories has what the ConfigMaps were.
	histories map[types.UID]*history
}

// cluster has the ConfigMaps that claim to be its configuration. The oldest is.
type cluster struct {
	claims []*configMap
	// told is what the agents were told last: a digest.
	told string
}

// history is the last versions of a ConfigMap, the newest last.
type history struct {
	versions []wire.Version
}

// mostVersions are remembered of a ConfigMap. A kubelet is behind by a few.
const mostVersions = 16

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

// New makes a Watcher that watches from Run on.
func New(api kubernetes.Interface, tables Tables, names []types.NamespacedName, log *slog.Logger) (*Watcher, error) {
	w := &Watcher{
		tables: tables, log: log, names: names, faults: newFaults(),
		clusters: map[string]*cluster{}, histories: map[types.UID]*history{},
	}
	for _, n := range names {
		factory := informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithNamespace(n.Namespace), informers.WithTransform(trim),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) {
				o.LabelSelector, o.FieldSelector = Label, "metadata.name="+n.Name
			}))
		informer := factory.Core().V1().ConfigMaps().Informer()
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(now any) { w.put(nil, now.(*configMap)) },
			UpdateFunc: func(last, now any) { w.put(last.(*configMap), now.(*configMap)) },
			DeleteFunc: func(last any) {
				if unknown, is := last.(cache.DeletedFinalStateUnknown); is {
					last = unknown.Obj
				}
				w.remove(last.(*configMap))
			},
		})
		if err != nil {
			return nil, fmt.Errorf("cannot watch the ConfigMap %s: %w", n, err)
		}
		w.informers = append(w.informers, informer)
	}
	return w, nil
}

// Run watches until ctx ends. Nobody waits for it: agents have their tables without it.
func (w *Watcher) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for i, informer := range w.informers {
		running.Go(func() { informer.RunWithContext(ctx) })
		running.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) && len(informer.GetStore().ListKeys()) == 0 {
				w.log.Warn("there is no such ConfigMap, or it has no label "+Label+": its changes are not streamed", "configMap", w.names[i].String())
			}
		})
	}
}

// Told counts the ConfigMaps that are streamed.
func (w *Watcher) Told() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clusters {
		if c.told != "" {
			n++
		}
	}
	return n
}

func (w *Watcher) put(last, now *configMap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last != nil && (last.UID != now.UID || last.cluster != now.cluster) {
		w.withdraw(last)
	}
	h := w.histories[now.UID]
	if h == nil {
		h = &history{}
		w.histories[now.UID] = h
	}
	h.add(now)
	c := w.clusters[now.cluster]
	if c == nil {
		c = &cluster{}
		w.clusters[now.cluster] = c
	}
	c.claims = append(slices.DeleteFunc(c.claims, func(one *configMap) bool { return one.UID == now.UID }), now)
	slices.SortFunc(c.claims, func(a, b *configMap) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	w.judge(now.cluster, c)
}

func (w *Watcher) remove(last *configMap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.withdraw(last)
}

// withdraw takes a ConfigMap out. That is no edit: agents keep what they have.
func (w *Watcher) withdraw(last *configMap) {
	delete(w.histories, last.UID)
	w.faults.forget(last.UID)
	c := w.clusters[last.cluster]
	if c == nil {
		return
	}
	c.claims = slices.DeleteFunc(c.claims, func(one *configMap) bool { return one.UID == last.UID })
	w.judge(last.cluster, c)
	if len(c.claims) == 0 {
		delete(w.clusters, last.cluster)
	}
}

// judge tells the cluster's agents of the oldest ConfigMap, and notes why one is not streamed.
func (w *Watcher) judge(name string, c *cluster) {
	for i, one := range c.claims {
		fault := one.fault
		if i > 0 {
			fault = &Fault{second, fmt.Sprintf("The older ConfigMap %s is the configuration of the cluster too, so this one is not streamed.", c.claims[0].Name)}
		}
		if w.faults.note(one, fault) {
			w.log.Warn("a ConfigMap is not streamed", "namespace", one.Namespace, "configMap", one.Name, "reason", fault.Reason, "fault", fault.Note)
		}
	}
	if len(c.claims) == 0 || c.claims[0].fault != nil {
		c.told = ""
		_ = w.tables.SetFiles(name, nil) // it fails for no nil
		return
	}
	one := c.claims[0]
	if told := string(one.UID) + one.digest; told != c.told {
		c.told = told
		h := w.histories[one.UID]
		files := &peerserver.EncodedFiles{Name: one.Name, ResourceVersion: one.number, Former: slices.Clone(h.versions[:len(h.versions)-1]), Data: one.data}
		if err := w.tables.SetFiles(name, files); err != nil {
			w.log.Error("cannot stream a ConfigMap", "namespace", one.Namespace, "configMap", one.Name, slog.Any("error", err))
		}
	}
}

// add notes a version. Only a change of the content is one.
func (h *history) add(m *configMap) {
	if n := len(h.versions); n > 0 && h.versions[n-1].Digest == m.digest {
		return
	}
	h.versions = append(h.versions, wire.Version{ResourceVersion: m.number, Digest: m.digest})
	h.versions = slices.Clone(h.versions[max(0, len(h.versions)-mostVersions):])
}

// number is a resourceVersion. Kubernetes compares those of one resource as numbers.
func number(resourceVersion string) (uint64, *Fault) {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil || n == 0 {
		return 0, &Fault{badVersion, fmt.Sprintf("The resourceVersion %.40q is no number, so the ConfigMap is not streamed.", resourceVersion)}
	}
	return n, nil
}
