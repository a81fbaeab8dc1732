package cordon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/controller/internal/reports"
	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

const (
	again   = 5 * time.Second
	timeout = 5 * time.Second
	// mostMark bounds the annotation.
	mostMark = 1000
)

// Settings say how a machine is marked, and whose drains do that.
type Settings struct {
	Mode Mode
	// Namespaces are those whose clusters' drains mark machines: with a mark, nobody's pods come to the machine.
	Namespaces []string
}

// Keeper marks machines.
type Keeper struct {
	Settings
	api     kubernetes.Interface
	watcher *pods.Watcher
	reports *reports.Reports
	log     *slog.Logger

	mu sync.Mutex
	// leads: somebody empties dirty.
	leads bool
	dirty map[string]bool
	wake  chan struct{}
}

// New makes a Keeper. It works in Lead alone.
func New(s Settings, api kubernetes.Interface, w *pods.Watcher, r *reports.Reports, log *slog.Logger) (*Keeper, error) {
	k := &Keeper{Settings: s, api: api, watcher: w, reports: r, log: log, dirty: map[string]bool{}, wake: make(chan struct{}, 1)}
	r.Notify(k.reported)
	return k, w.OnMachines(k.look)
}

// trusts says whether drains of a cluster mark machines.
func (k *Keeper) trusts(cluster string) bool {
	namespace, _, _ := strings.Cut(cluster, "/")
	return slices.Contains(k.Namespaces, namespace)
}

// reported looks at the machines of nodes that have changed, and at those that have a mark for them. Without names,
// it looks at all of the cluster.
func (k *Keeper) reported(cluster string, names []string) {
	if !k.trusts(cluster) {
		return
	}
	changed := make(map[string]bool, len(names))
	for _, name := range names {
		changed[name] = true
	}
	for _, p := range k.watcher.InCluster(cluster) {
		if isNode(p) && (len(names) == 0 || changed[p.Hostname]) {
			k.look(p.Machine.Value())
		}
	}
	for machine, drained := range k.watcher.Drained() {
		if slices.ContainsFunc(split(drained), func(key string) bool {
			name, of := strings.CutPrefix(key, cluster+"/")
			return of && (len(names) == 0 || changed[name])
		}) {
			k.look(machine)
		}
	}
}

func (k *Keeper) look(machine string) {
	if machine == "" {
		return
	}
	k.mu.Lock()
	if k.leads {
		k.dirty[machine] = true
	}
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default: // it knows already
	}
}

// Lead marks machines until ctx ends.
func (k *Keeper) Lead(ctx context.Context) {
	k.lead(true)
	defer k.lead(false)
	for _, p := range k.watcher.All() {
		k.look(p.Machine.Value())
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		}
		k.mu.Lock()
		dirty := k.dirty
		k.dirty = map[string]bool{}
		k.mu.Unlock()
		for name := range dirty {
			if err := k.keep(ctx, name); err != nil && ctx.Err() == nil {
				k.log.Warn("cannot mark a machine", "machine", name, slog.Any("error", err))
				time.AfterFunc(again, func() { k.look(name) })
			}
		}
	}
}

func (k *Keeper) lead(leads bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leads = leads
	clear(k.dirty)
}

// keep gives a machine its mark, or takes it away. It judges the machine as Kubernetes itself has it.
func (k *Keeper) keep(ctx context.Context, name string) error {
	m, there := k.watcher.Machine(name)
	if !there {
		return nil
	}
	if what, _, _ := plan(k.Mode, m, k.nodes(name, m.Drained)); what == nothing {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	n, err := k.api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot ask for the machine: %w", err)
	}
	m.Mark, m.Drained, m.Unschedulable = n.Annotations[machines.Annotation], n.Annotations[machines.DrainedAnnotation], n.Spec.Unschedulable
	what, drained, why := plan(k.Mode, m, k.nodes(name, m.Drained))
	if what == nothing {
		return nil
	}
	change(n, k.Mode, what, drained, why)
	if _, err = k.api.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("cannot change the machine: %w", err)
	}
	k.log.Info(sentences[what], "machine", name, "why", why)
	return nil
}

var sentences = map[action]string{
	mark:   "a machine is marked, because Slurm has drained it",
	amend:  "a machine's mark stays, because some of its nodes are not resumed",
	unmark: "a machine's mark is gone, because Slurm uses it again",
}

// nodes are a machine's, and those that its mark is for, as slurmctlds' agents have told of them. Those of namespaces
// whose drains mark no machine are left out: a mark for them goes.
func (k *Keeper) nodes(machine, drained string) (all []node) {
	here := map[string]bool{}
	for _, p := range k.watcher.On(machine) {
		if !isNode(p) || p.Pending || !k.trusts(p.Cluster()) || !k.watcher.Holds(p) {
			continue
		}
		n := k.told(p.Cluster(), p.Hostname, true)
		if n.State != "" && p.DeletionTimestamp != nil {
			n.State = wire.Absent // its drain counts, and nobody resumes it
		}
		here[n.key()] = true
		all = append(all, n)
	}
	for _, key := range split(drained) {
		slash := strings.LastIndexByte(key, '/')
		if slash > 0 && !here[key] && k.trusts(key[:slash]) {
			all = append(all, k.told(key[:slash], key[slash+1:], false))
		}
	}
	return all
}

// told is a node as slurmctld's agent has told of it.
func (k *Keeper) told(cluster, name string, here bool) node {
	n := node{cluster: cluster, here: here, NodeReport: wire.NodeReport{Name: name}}
	if told, _, known := k.reports.Node(cluster, name); known {
		n.NodeReport = told
	}
	return n
}

// isNode says whether a pod is a node, which may be on its way down: slurmctld has its record and drain until its end.
func isNode(p *pods.Pod) bool { return p.Role.Value() == role.Slurmd && !p.Over }

// change marks a Kubernetes node, or takes the mark away. The mark says how the machine was marked, because
// the mode may change.
func change(n *corev1.Node, mode Mode, what action, drained []string, why string) {
	if what == unmark {
		if marked(n, Cordon) {
			n.Spec.Unschedulable = false
		}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return marked(n, Taint) && t.Key == machines.Taint })
		delete(n.Annotations, machines.Annotation)
		delete(n.Annotations, machines.DrainedAnnotation)
		return
	}
	switch {
	case marked(n, Cordon):
		mode = Cordon
	case marked(n, Taint):
		mode = Taint
	}
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[machines.Annotation] = string(mode) + ": " + why[:min(len(why), mostMark)]
	n.Annotations[machines.DrainedAnnotation] = strings.Join(drained, ",")
	switch {
	case what == amend:
	case mode == Cordon:
		n.Spec.Unschedulable = true
	case !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == machines.Taint }):
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: machines.Taint, Effect: corev1.TaintEffectNoSchedule})
	}
}

// marked says whether the mark is of a mode.
func marked(n *corev1.Node, mode Mode) bool {
	text := n.Annotations[machines.Annotation]
	return len(text) >= len(mode) && text[:len(mode)] == string(mode)
}
