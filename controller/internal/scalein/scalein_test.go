package scalein

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// pod is a trimmed one, made by a workload of a kind.
func pod(kind string, marks pods.Marks) *pods.Pod {
	from := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Annotations: map[string]string{}}}
	if kind != "" {
		from.OwnerReferences = []metav1.OwnerReference{{Kind: kind, UID: "o", Controller: new(true)}}
	}
	if marks.Cost != "" {
		from.Annotations[pods.CostAnnotation] = marks.Cost
	}
	if marks.SafeToEvict != "" {
		from.Annotations[pods.EvictAnnotation] = marks.SafeToEvict
	}
	for kind, status := range map[corev1.PodConditionType]corev1.ConditionStatus{pods.RegisteredCondition: marks.Registered, pods.IdleCondition: marks.Idle} {
		if status != "" {
			from.Status.Conditions = append(from.Status.Conditions, corev1.PodCondition{Type: kind, Status: status})
		}
	}
	return pods.Trim(from)
}

// marks reads "-100 - True False": the cost, the autoscaler's annotation, Registered and Idle.
func marks(text string) pods.Marks {
	f := strings.Fields(text)
	for i := range f {
		if f[i] == "-" {
			f[i] = ""
		}
	}
	return pods.Marks{Cost: f[0], SafeToEvict: f[1], Registered: corev1.ConditionStatus(f[2]), Idle: corev1.ConditionStatus(f[3])}
}

func TestMarks(t *testing.T) {
	for _, c := range []struct {
		name      string
		evict     bool
		kind      string
		now       string
		state     wire.State
		want      string
		isCheaper bool
	}{
		{"idle", false, "ReplicaSet", "- - - -", wire.Idle, "-100 - True True", true},
		{"busy", false, "ReplicaSet", "- - - -", wire.Busy, "100 - True False", false},
		{"a job begins", false, "ReplicaSet", "-100 - True True", wire.Busy, "100 - True False", false},
		{"a job ends", false, "ReplicaSet", "100 - True False", wire.Idle, "-100 - True True", true},
		{"as before", false, "ReplicaSet", "100 - True False", wire.Busy, "100 - True False", false},
		{"a new pod without a record", false, "ReplicaSet", "- - - -", wire.Absent, "- - False False", false},
		{"slurmctld does not hear from an idle node", true, "ReplicaSet", "-100 true True True", wire.Absent, "0 false False False", false},
		{"slurmctld does not hear from a busy node", true, "ReplicaSet", "100 false True False", wire.Absent, "100 false False False", false},
		{"the user's own cost", false, "ReplicaSet", "5 - - -", wire.Idle, "5 - True True", true},
		{"a StatefulSet's pod", false, "StatefulSet", "- - - -", wire.Idle, "- - True True", true},
		{"a pod that nothing owns", false, "", "- - - -", wire.Idle, "- - True True", true},
		{"the autoscaler's annotation", true, "DaemonSet", "- - - -", wire.Idle, "- true True True", true},
		{"the autoscaler's annotation of a busy one", true, "DaemonSet", "- true True True", wire.Busy, "- false True False", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := pod(c.kind, marks(c.now))
			require.Equal(t, marks(c.now), p.Marks)
			have := Settings{c.evict}.marks(p, c.state)
			assert.Equal(t, marks(c.want), have)
			assert.Equal(t, c.isCheaper, cheaper(p.Marks, have))
		})
	}
}

func TestPatch(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := pod("ReplicaSet", pods.Marks{Cost: "-100", Registered: corev1.ConditionTrue, Idle: corev1.ConditionTrue})
	body, err := patch(p, Settings{}.marks(p, wire.Busy), wire.Busy, at)
	require.NoError(t, err)
	assert.JSONEq(t, `{"metadata":{"uid":"u","annotations":{"controller.kubernetes.io/pod-deletion-cost":"100"}},
		"status":{"conditions":[{"type":"slurmlet.dev/Idle","status":"False","reason":"Busy","message":"A job holds the node.",
		"lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`, string(body))
	p = pod("ReplicaSet", pods.Marks{Cost: "100", Registered: corev1.ConditionTrue, Idle: corev1.ConditionTrue})
	body, err = patch(p, Settings{}.marks(p, wire.Idle), wire.Idle, at)
	require.NoError(t, err)
	assert.JSONEq(t, `{"metadata":{"uid":"u","annotations":{"controller.kubernetes.io/pod-deletion-cost":"-100"}}}`, string(body), "a condition that stays has its time")
}

func TestQueue(t *testing.T) {
	q, now := newQueue(), time.Now()
	next := func() string {
		key, _ := q.next(now)
		return key
	}
	q.look("nobody leads")
	q.lookAt("nobody leads", now)
	assert.Empty(t, next())
	q.open(true)
	q.lookAt("late", now.Add(time.Minute))
	q.lookAt("later", now.Add(2*time.Minute))
	_, wait := q.next(now)
	assert.Equal(t, time.Minute, wait)
	q.look("a")
	q.look("a")
	q.lookAt("a", now.Add(time.Minute)) // it is looked at soon
	assert.True(t, q.urgent())
	assert.Equal(t, "a", next())
	assert.Empty(t, next())
	assert.False(t, q.urgent())
	q.look("later")
	assert.Equal(t, "later", next())
	now = now.Add(3 * time.Minute)
	assert.Equal(t, "late", next())
	q.look("a")
	q.open(false)
	assert.Empty(t, next())
}
