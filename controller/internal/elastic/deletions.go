package elastic

import (
	"context"
	"errors"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/internal/kit/backoff"
)

// jam holds the deletions of a cluster's pods while Kubernetes refuses them, and cause is what it says.
type jam struct {
	gate
	cause string
}

// denial is what Kubernetes has said to the deletions of one pod. Its pauses are longer than those of the cluster, so
// that a pod that alone is refused lets others try first.
type denial struct {
	uid   types.UID
	tries int
	until time.Time
	cause string
}

// held is until when a pod's deletion waits. The caller holds mu.
func (m *Maker) held(k key, mem *memory, p *pods.Pod, now time.Time) (until time.Time) {
	if p == nil {
		return time.Time{}
	}
	if mem.denial.uid == p.UID {
		until = mem.denial.until
	}
	if j := m.jams[k.in()]; j != nil {
		until = later(until, j.until)
		if j.probing {
			until = later(until, now.Add(probe))
		}
	}
	return until
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// delete ends a pod: its agent waits for what runs.
func (m *Maker) delete(ctx context.Context, k key, uid types.UID) {
	if !m.beginDeletion(k) {
		m.look(k)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := m.api.CoreV1().Pods(k.namespace).Delete(ctx, k.node, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	now := time.Now()
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		m.denied(k, uid, err, now)
		return
	}
	m.mu.Lock()
	jammed := m.jams[k.in()] != nil
	delete(m.jams, k.in())
	mem := m.memory(k)
	mem.deleted, mem.settled, mem.denial = uid, now.Add(settle), denial{}
	m.mu.Unlock()
	if err == nil {
		m.Deleted.Add(1)
		m.log.Info("a pod is deleted", "namespace", k.namespace, "pod", k.node, "uid", uid)
	}
	m.look(k)
	if jammed { // all others may try at once
		m.lookAll(k.in(), "")
	}
}

// beginDeletion is false if another node tries whether Kubernetes refuses the cluster's deletions still.
func (m *Maker) beginDeletion(k key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.jams[k.in()]
	return j == nil || j.begin()
}

// denied: Kubernetes has not deleted a pod. The log has each cause once, and not once for each pod and try.
func (m *Maker) denied(k key, uid types.UID, err error, now time.Time) {
	cause := "no answer" // whose text has an address, or the pod's
	if _, answered := errors.AsType[*apierrors.StatusError](err); answered {
		cause = ofAll(err, k.node)
	}
	m.Failed.Add(1)
	m.mu.Lock()
	j := m.jams[k.in()]
	if j == nil {
		j = &jam{}
		m.jams[k.in()] = j
	}
	d := &m.memory(k).denial
	if d.uid != uid {
		*d = denial{uid: uid}
	}
	told := cause == j.cause || cause == d.cause
	d.until, d.tries = now.Add(backoff.Grow(2*firstRefusal, d.tries, lastRefusal)), d.tries+1
	j.cause, d.cause = cause, cause
	until := later(j.refuse(now), d.until)
	m.mu.Unlock()
	if !told {
		m.log.Warn("cannot delete a pod", "namespace", k.namespace, "pod", k.node, slog.Any("error", err))
	}
	m.lookAt(k, until)
}
