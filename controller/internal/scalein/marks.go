// Package scalein tells Kubernetes which pods have jobs: by conditions, by the cost of a pod's deletion,
// which orders the scale-in of a ReplicaSet, and by the cluster autoscaler's annotation.
package scalein

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// The costs of a pod's deletion. A pod without a cost, of which nobody has told anything, is between them.
const (
	idleCost    = "-100"
	unknownCost = "0"
	busyCost    = "100"
)

// Settings say what is written.
type Settings struct {
	// SafeToEvict has the cluster autoscaler's annotation follow busy and idle.
	SafeToEvict bool
}

// marks are what a pod is to have. Its own stay where slurmctld's agent has told nothing.
func (s Settings) marks(p *pods.Pod, state wire.State) pods.Marks {
	m := p.Marks
	m.Registered, m.Idle = corev1.ConditionTrue, corev1.ConditionFalse
	cost, evict := busyCost, "false"
	switch state {
	case wire.Idle:
		m.Idle = corev1.ConditionTrue
		cost, evict = idleCost, "true"
	case wire.Absent:
		m.Registered = corev1.ConditionFalse
		// slurmctld may only not hear from the node, so the pod is not cheap any more.
		cost, evict = m.Cost, m.SafeToEvict
		if cost == idleCost {
			cost = unknownCost
		}
		if evict == "true" {
			evict = "false"
		}
	}
	if p.Kind == "ReplicaSet" && ours(m.Cost) {
		m.Cost = cost
	}
	if s.SafeToEvict {
		m.SafeToEvict = evict
	}
	return m
}

// ours says whether a cost may be written over: a user's own cost stays.
func ours(cost string) bool {
	return cost == "" || cost == idleCost || cost == unknownCost || cost == busyCost
}

// cheaper says whether the marks make the pod's deletion more likely. These can wait, and others cannot.
func cheaper(now, want pods.Marks) bool {
	return want.Idle == corev1.ConditionTrue && now.Idle != want.Idle || want.Cost == idleCost && now.Cost != want.Cost ||
		want.SafeToEvict == "true" && now.SafeToEvict != want.SafeToEvict
}

// patch is the request that gives a pod its marks, for the subresource status: it takes annotations, too, so
// a change costs one request, and the controller needs no right to change pods themselves. It applies to this
// pod alone, and not to a later one of its name.
func patch(p *pods.Pod, want pods.Marks, state wire.State, now time.Time) ([]byte, error) {
	type object = map[string]any
	metadata := object{"uid": p.UID}
	annotations := object{}
	if want.Cost != p.Cost {
		annotations[pods.CostAnnotation] = want.Cost
	}
	if want.SafeToEvict != p.SafeToEvict {
		annotations[pods.EvictAnnotation] = want.SafeToEvict
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	var conditions []corev1.PodCondition
	condition := func(kind corev1.PodConditionType, now, want corev1.ConditionStatus, at time.Time) {
		if now != want {
			conditions = append(conditions, corev1.PodCondition{
				Type: kind, Status: want, Reason: reasons[state].word, Message: reasons[state].text, LastTransitionTime: metav1.NewTime(at),
			})
		}
	}
	condition(pods.RegisteredCondition, p.Registered, want.Registered, now)
	condition(pods.IdleCondition, p.Idle, want.Idle, now)
	body := object{"metadata": metadata}
	if len(conditions) > 0 {
		body["status"] = object{"conditions": conditions}
	}
	return json.Marshal(body)
}

// patchType merges conditions by their type.
const patchType = types.StrategicMergePatchType

// reasons are what conditions say of a state.
var reasons = map[wire.State]struct{ word, text string }{
	wire.Idle:   {"Idle", "No job holds the node."},
	wire.Busy:   {"Busy", "A job holds the node."},
	wire.Absent: {"Absent", "slurmctld has no record of the node, or does not hear from it."},
}
