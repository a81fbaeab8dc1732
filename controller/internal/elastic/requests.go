package elastic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
)

const (
	// firstRefusal and lastRefusal bound the pauses after a refused pod, for all pods of the set.
	firstRefusal = time.Second
	lastRefusal  = 30 * time.Second
)

// gate holds requests that Kubernetes refuses: one node after the other tries.
type gate struct {
	tries   int
	until   time.Time
	trouble *Trouble
	probing bool
}

// begin is false if another node tries whether Kubernetes refuses still.
func (g *gate) begin() bool {
	if g == nil {
		return true
	}
	if g.probing {
		return false
	}
	g.probing = true
	return true
}

// refuse closes the gate for longer than before, and tells until when.
func (g *gate) refuse(now time.Time) time.Time {
	if g.probing || now.After(g.until) { // else requests were under way together
		g.until = now.Add(backoff.Grow(firstRefusal, g.tries, lastRefusal))
		g.tries++
	}
	g.probing = false
	return g.until
}

// create makes a node's pod.
func (m *Maker) create(ctx context.Context, k key) {
	told, _, known := m.reports.Node(k.in(), k.node)
	if !known || !told.Wanted || told.Elastic == "" {
		return // it has just changed
	}
	s := set{k.namespace, k.cluster, told.Elastic}
	t, trouble := m.template(s)
	if trouble != nil || !m.begin(s) {
		m.look(k)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p, err := m.api.CoreV1().Pods(k.namespace).Create(ctx, build(s, k.node, t), metav1.CreateOptions{})
	now := time.Now()
	switch {
	case err == nil:
		m.Made.Add(1)
		m.log.Info("a pod is made, because Slurm wants the node", "namespace", k.namespace, "pod", k.node, "set", s.name)
		m.made(s, k, p.UID, now)
		m.look(k) // the watch may have told already
	case apierrors.IsAlreadyExists(err):
		m.clashed(s, k, now)
	default:
		m.refused(s, k, t, err, now)
	}
}

// begin is false if another node tries whether a refused set takes pods.
func (m *Maker) begin(s set) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gates[s].begin()
}

func (m *Maker) made(s set, k key, uid types.UID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	open := m.gates[s] != nil
	delete(m.gates, s)
	mem := m.memory(k)
	mem.made, mem.settled, mem.clashes = uid, now.Add(settle), 0
	if open { // all others may try at once
		go m.lookAll(k.in(), s.name)
	}
}

// clashed: the name is taken, most likely by a pod of which the watch has not told yet.
func (m *Maker) clashed(s set, k key, now time.Time) {
	m.mu.Lock()
	if g := m.gates[s]; g != nil {
		g.probing = false
	}
	mem := m.memory(k)
	mem.clashes++
	pause := backoff.Grow(firstRefusal, mem.clashes-1, lastRefusal)
	mem.settled = now.Add(pause)
	m.mu.Unlock()
	m.lookAt(k, now.Add(pause))
}

// refused: Kubernetes has not made a pod. What it says of one is true of all pods of the set, mostly.
func (m *Maker) refused(s set, k key, t *corev1.PodTemplate, err error, now time.Time) {
	trouble := &Trouble{Reason: failedCreate, Note: ofAll(err, k.node), Since: now}
	_, answered := errors.AsType[*apierrors.StatusError](err)
	silent := !answered || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
	m.mu.Lock()
	g := m.gates[s]
	if g == nil {
		g = &gate{}
		m.gates[s] = g
	}
	until := g.refuse(now)
	g.trouble = trouble
	if silent {
		g.trouble = nil // nobody knows whether the pod is there
	}
	m.mu.Unlock()
	if silent {
		m.Failed.Add(1)
		m.log.Warn("cannot make a pod", "namespace", k.namespace, "pod", k.node, slog.Any("error", err))
	} else {
		m.Refused.Add(1)
		if m.refusals.note(s, *trouble, func() corev1.ObjectReference { return m.subject(s, t) }) {
			m.log.Warn("Kubernetes refuses the pods of an elastic set", "set", s.String(), slog.Any("error", err))
		}
	}
	m.lookAt(k, until)
}

// ofAll is what Kubernetes says of a pod, without the pod's name.
func ofAll(err error, name string) string {
	text := err.Error()
	if _, rest, has := strings.Cut(text, fmt.Sprintf("%q is ", name)); has {
		return rest
	}
	return strings.ReplaceAll(text, fmt.Sprintf("%q", name), "of the set")
}
