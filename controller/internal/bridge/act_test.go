package bridge

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/controller/internal/queue"
	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// TestPlacePatch: a pod keeps what it has, loses one gate, and has one node.
func TestPlacePatch(t *testing.T) {
	zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}
	terms := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	node := corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"m1"}}
	alone := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{node}}
	both := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{zone}, MatchFields: []corev1.NodeSelectorRequirement{node}}
	away := &corev1.PodAntiAffinity{}
	for name, c := range map[string]struct{ before, after *corev1.Affinity }{
		"none":              {nil, terms(alone)},
		"of pods":           {&corev1.Affinity{PodAntiAffinity: away}, &corev1.Affinity{PodAntiAffinity: away, NodeAffinity: terms(alone).NodeAffinity}},
		"preferred":         {&corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}, terms(alone)},
		"required":          {terms(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}), terms(both)},
		"two alternatives":  {terms(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}), terms(both, both)},
		"fields of its own": {terms(alone), terms(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{node, node}})},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{UID: "u", Labels: map[string]string{"a": "b"}},
				Spec:       corev1.PodSpec{Affinity: c.before, SchedulingGates: []corev1.PodSchedulingGate{{Name: "kueue"}, {Name: wellknown.Gate}}},
			}
			now := apply(t, p, "u")
			assert.Equal(t, c.after, now.Spec.Affinity)
			assert.Equal(t, []corev1.PodSchedulingGate{{Name: "kueue"}}, now.Spec.SchedulingGates)
			assert.Equal(t, map[string]string{"a": "b", wellknown.Job: "7", wellknown.SlinkyJob: "7"}, now.Labels)
			assert.Equal(t, "1.5.2", now.Annotations[wellknown.JobRun])
			assert.Equal(t, "w3", now.Annotations[wellknown.SlurmNode])
			assert.Equal(t, "g", now.Annotations[wellknown.Group])
			assert.Equal(t, []corev1.Toleration{{Key: wellknown.Bridge, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, now.Spec.Tolerations)
		})
	}
	_, err := placePatch(&corev1.Pod{}, "g", queue.Place{}, "m1")
	assert.Error(t, err, "a pod without the gate")
}

func apply(t *testing.T, p *corev1.Pod, uid string) *corev1.Pod {
	text, err := placePatch(p, "g", queue.Place{Job: 7, Run: queue.Run{Restarts: 1, Start: 5}, Node: "w3", Rank: 2}, "m1")
	require.NoError(t, err)
	patch, err := jsonpatch.DecodePatch(text)
	require.NoError(t, err)
	before, err := json.Marshal(p)
	require.NoError(t, err)
	after, err := patch.Apply(before)
	require.NoError(t, err)
	now := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(after, now))
	assert.Equal(t, uid, string(now.UID))
	return now
}
