package bridge

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

// TestPlace: a node that has come back under another name hears of the pods that its machine has still, and not of those
// of another node there.
func TestPlace(t *testing.T) {
	here := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "machine-1"}}
	at := place{node: "w2", machine: "machine-1", others: map[string]bool{"w3": true}}
	for _, c := range []struct {
		what, node string
		pod        *corev1.Pod
		want       bool
	}{
		{"of the node itself", "w2", nil, true},
		{"of the name that it had", "w1", here, true},
		{"of another node there", "w3", here, false},
		{"elsewhere", "w1", &corev1.Pod{Spec: corev1.PodSpec{NodeName: "machine-2"}}, false},
		{"nobody knows where", "w1", nil, false},
	} {
		assert.Equal(t, c.want, at.has(c.node, c.pod), c.what)
	}
	assert.False(t, place{node: "w2"}.has("w1", here), "one job's pods are looked for by the node alone")
	assert.True(t, place{node: "w2"}.has("w2", here))
}
