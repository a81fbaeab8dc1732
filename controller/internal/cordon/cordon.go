package cordon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/controller/internal/reports"
	"github.com/slurmlet/slurmlet/internal/peers"
)

const (
	again   = 5 * time.Second
	timeout = 5 * time.Second
	// mostMark bounds the annotation.
	mostMark = 1000
)

// Keeper marks machines.
type Keeper struct {
	mode    Mode
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
func New(mode Mode, api kubernetes.Interface, w *pods.Watcher, r *reports.Reports, log *slog.Logger) (*Keeper, error) {
	k := &Keeper{mode: mode, api: api, watcher: w, reports: r, log: log, dirty: map[string]bool{}, wake: make(chan struct{}, 1)}
	r.Notify(k.reported)
	return k, w.OnMachines(k.look)
}

// reported looks at the machines of nodes that have changed; no names are all.
func (k *Keeper) reported(cluster string, names []string) {
	changed := make(map[string]bool, len(names))
	for _, name := range names {
		changed[name] = true
	}
	for _, p := range k.watcher.InCluster(cluster) {
		if node(p) && (len(names) == 0 || changed[p.Hostname]) {
			k.look(p.Machine.Value())
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
	nodes := k.nodes(name)
	if what, _ := plan(k.mode, m, nodes); what == nothing {
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
	m.Mark, m.Unschedulable = n.Annotations[machines.Annotation], n.Spec.Unschedulable
	what, why := plan(k.mode, m, nodes)
	if what == nothing {
		return nil
	}
	change(n, k.mode, what, why)
	if _, err = k.api.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("cannot change the machine: %w", err)
	}
	k.log.Info(map[action]string{mark: "a machine is marked, because Slurm has drained it", unmark: "a machine's mark is gone, because Slurm uses it again"}[what], "machine", name, "why", why)
	return nil
}

// nodes are a machine's, as slurmctlds' agents have told of them. One of which nobody has told lately has no State.
func (k *Keeper) nodes(machine string) (all []peers.NodeReport) {
	for _, p := range k.watcher.On(machine) {
		if !node(p) || !k.watcher.Holds(p) {
			continue
		}
		told, _, known := k.reports.Node(p.Cluster(), p.Hostname)
		switch {
		case !known:
			told = peers.NodeReport{Name: p.Hostname}
		case p.DeletionTimestamp != nil:
			told.State = peers.Absent // its drain counts, and nobody resumes it
		}
		all = append(all, told)
	}
	return all
}

// node says whether a pod is a node, which may be on its way down: slurmctld has its record and drain until its end.
func node(p *pods.Pod) bool { return p.Role.Value() == "slurmd" && !p.Over }

// change marks a Kubernetes node, or takes the mark away. The mark says how the machine was marked, because
// the mode may change.
func change(n *corev1.Node, mode Mode, what action, why string) {
	if what == mark {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[machines.Annotation] = string(mode) + ": " + why[:min(len(why), mostMark)]
		if mode == Cordon {
			n.Spec.Unschedulable = true
		} else {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: machines.Taint, Effect: corev1.TaintEffectNoSchedule})
		}
		return
	}
	if marked(n, Cordon) {
		n.Spec.Unschedulable = false
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return marked(n, Taint) && t.Key == machines.Taint })
	delete(n.Annotations, machines.Annotation)
}

// marked says whether the mark is of a mode.
func marked(n *corev1.Node, mode Mode) bool {
	text := n.Annotations[machines.Annotation]
	return len(text) >= len(mode) && text[:len(mode)] == string(mode)
}
