package pods

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/internal/kit/role"
)

// The indexes of the pods. They have few values with many pods each, so they cost little memory.
const (
	byCluster = "cluster"
	byOwner   = "owner"
)

var indexers = cache.Indexers{
	byCluster: func(object any) ([]string, error) { return []string{object.(*Pod).Cluster()}, nil },
	byOwner:   func(object any) ([]string, error) { return []string{string(object.(*Pod).Owner)}, nil },
}

// Slurmd says whether the pod is a node that is there for good.
func (p *Pod) Slurmd() bool {
	return p.Role.Value() == role.Slurmd && !p.Over && p.DeletionTimestamp == nil
}

// Key is the pod's namespace and name.
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }

// Trim is what is kept of a pod that was read in another way.
func Trim(from *corev1.Pod) *Pod {
	p, _ := trimPod(from) // it fails for no pod
	return p.(*Pod)
}

// Get is a pod by its Key; nil if there is none.
func (w *Watcher) Get(key string) *Pod {
	namespace, name, _ := strings.Cut(key, "/")
	p, _ := w.pods.Get(namespace, name).(*Pod)
	return p
}

// All are the pods of all clusters.
func (w *Watcher) All() []*Pod {
	objects := w.pods.List()
	all := make([]*Pod, len(objects))
	for i, object := range objects {
		all[i] = object.(*Pod)
	}
	return all
}

// InCluster are a cluster's pods.
func (w *Watcher) InCluster(cluster string) []*Pod { return w.indexed(byCluster, cluster) }

// OwnedBy are the pods that a StatefulSet, a DaemonSet, a ReplicaSet or a PodTemplate owns.
func (w *Watcher) OwnedBy(uid types.UID) []*Pod { return w.indexed(byOwner, string(uid)) }

func (w *Watcher) indexed(index, value string) []*Pod {
	objects, err := w.pods.ByIndex(index, value)
	if err != nil {
		return nil // no such index
	}
	all := make([]*Pod, len(objects))
	for i, object := range objects {
		all[i] = object.(*Pod)
	}
	return all
}

// HasSynced says whether all pods are known that there were at the start.
func (w *Watcher) HasSynced() bool { return w.podsKnown() }

// Holds says whether the pod has its name in its cluster, so that what slurmctld says of the node is said
// of the pod.
func (w *Watcher) Holds(p *Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.known[p.UID]
	if e == nil || e.cluster == "" {
		return false
	}
	return !w.faults.has(p.UID)
}

// Machine is a Kubernetes node that is there.
func (w *Watcher) Machine(name string) (machines.Machine, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.machines[name]
	if m == nil || !m.there {
		return machines.Machine{}, false
	}
	return m.now, true
}

// Drained are the machines with a machines.DrainedAnnotation, and its values.
func (w *Watcher) Drained() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]string{}
	for name, m := range w.machines {
		if m.there && m.now.Drained != "" {
			all[name] = m.now.Drained
		}
	}
	return all
}

// On are the pods of a machine.
func (w *Watcher) On(name string) (all []*Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.machines[name]; m != nil {
		for _, e := range m.pods {
			all = append(all, e.pod)
		}
	}
	return all
}

// OnPods has f told of each pod that comes, changes or goes. It is called before Run.
func (w *Watcher) OnPods(f func(*Pod)) error {
	_, err := w.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { f(now.(*Pod)) },
		UpdateFunc: func(_, now any) { f(now.(*Pod)) },
		DeleteFunc: func(last any) { f(final(last).(*Pod)) },
	})
	if err != nil {
		return fmt.Errorf("cannot watch Kubernetes' pods: %w", err)
	}
	return nil
}

// OnMachines has f told the name of each Kubernetes node that comes or changes. It is called before Run.
func (w *Watcher) OnMachines(f func(name string)) error {
	_, err := w.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(now any) { f(now.(*machine).Name) },
		UpdateFunc: func(last, now any) {
			if !last.(*machine).Equal(now.(*machine).Machine) {
				f(now.(*machine).Name)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("cannot watch Kubernetes' nodes: %w", err)
	}
	return nil
}
