package kube

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// QueuedPod is a pod that waits in Slurm's queue, or has come through it.
type QueuedPod struct {
	Name string `json:"name"`
	// State is Waits for one that has its gate, Granted for one that has a node of Slurm's and is not bound yet, Ending for one that
	// is deleted, and else the pod's phase.
	State string `json:"state"`
	// Job is the Slurm job's number, and Node its node, from the grant on.
	Job  string    `json:"job,omitempty"`
	Node string    `json:"node,omitempty"`
	Made time.Time `json:"made"`
	// Said is what the controller has said last of the pod, or kube-scheduler, empty where the event is gone.
	Said string `json:"said,omitempty"`
}

// Queue is the pods of the namespace that Slurm's queue is for and that have not ended, the oldest first. The error is that of
// events, without which no pod has Said.
func (c *Client) Queue(ctx context.Context) (pods []QueuedPod, missing, err error) {
	list, err := c.list(ctx, c.Namespace, wellknown.Bridge+"=true")
	if err != nil {
		return nil, nil, err
	}
	said := map[types.UID]string{}
	events, missing := c.api.CoreV1().Events(c.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Pod"})
	if missing == nil {
		said = lastSaid(events.Items)
	} else {
		missing = judge(Right{Verb: "list", Resource: "events", Namespace: c.Namespace}, missing)
	}
	for i := range list {
		if p := &list[i]; p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			pods = append(pods, queued(p, said[p.UID]))
		}
	}
	slices.SortFunc(pods, func(a, b QueuedPod) int { return cmp.Or(a.Made.Compare(b.Made), cmp.Compare(a.Name, b.Name)) })
	return pods, missing, nil
}

// lastSaid is the last event of the queue's for each pod.
func lastSaid(events []corev1.Event) map[types.UID]string {
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return lastOf(&a).Compare(lastOf(&b).Time) })
	said := map[types.UID]string{}
	for i := range events {
		if e := &events[i]; wellknown.OfQueue(e.Reason) {
			said[e.InvolvedObject.UID] = e.Message
		}
	}
	return said
}

func queued(p *corev1.Pod, said string) QueuedPod {
	q := QueuedPod{
		Name: p.Name, State: string(p.Status.Phase), Job: p.Labels[wellknown.Job], Node: p.Annotations[wellknown.SlurmNode],
		Made: p.CreationTimestamp.Time, Said: said,
	}
	gated := slices.ContainsFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == wellknown.Gate })
	switch {
	case p.DeletionTimestamp != nil:
		q.State = "Ending"
	case gated:
		q.State = "Waits"
	case p.Spec.NodeName == "":
		q.State = "Granted"
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
				q.Said = c.Message
			}
		}
	}
	return q
}
