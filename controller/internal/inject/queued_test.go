package inject

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestQueuedWithNode: a pod that names its node gets no gate, which the API server would refuse with it.
func TestQueuedWithNode(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "m1", SchedulerName: slurmBridge}}
	now, faults := queued(pod)
	assert.Empty(t, faults)
	assert.Equal(t, pod, now.Pod)
}

// TestQueued: a pod waits in Slurm's queue, whatever it says, and once.
func TestQueued(t *testing.T) {
	gate, others := corev1.PodSchedulingGate{Name: "slurmlet.dev/slurm"}, corev1.PodSchedulingGate{Name: "kueue"}
	for name, c := range map[string]struct {
		labels    map[string]string
		gates     []corev1.PodSchedulingGate
		scheduler string

		wantGates     []corev1.PodSchedulingGate
		wantScheduler string
	}{
		"a plain pod":               {nil, nil, "default-scheduler", []corev1.PodSchedulingGate{gate}, "default-scheduler"},
		"slurm-bridge's":            {map[string]string{"a": "b"}, nil, "slurm-bridge-scheduler", []corev1.PodSchedulingGate{gate}, "default-scheduler"},
		"a scheduler of its own":    {nil, nil, "volcano", []corev1.PodSchedulingGate{gate}, "volcano"},
		"another gate":              {nil, []corev1.PodSchedulingGate{others}, "", []corev1.PodSchedulingGate{others, gate}, "default-scheduler"},
		"asked again":               {map[string]string{"slurmlet.dev/bridge": "true"}, []corev1.PodSchedulingGate{gate}, "default-scheduler", []corev1.PodSchedulingGate{gate}, "default-scheduler"},
		"one that would not wait":   {map[string]string{"slurmlet.dev/bridge": "false"}, nil, "default-scheduler", []corev1.PodSchedulingGate{gate}, "default-scheduler"},
		"a gate in front of others": {nil, []corev1.PodSchedulingGate{gate, others}, "default-scheduler", []corev1.PodSchedulingGate{gate, others}, "default-scheduler"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: c.labels}, Spec: corev1.PodSpec{SchedulerName: c.scheduler, SchedulingGates: c.gates}}
			raw, err := json.Marshal(pod)
			require.NoError(t, err)
			answer := admit(&admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Object: runtime.RawExtension{Raw: raw},
			}, queued, slog.New(slog.DiscardHandler))
			require.True(t, answer.Allowed)
			if answer.Patch != nil {
				patch, err := jsonpatch.DecodePatch(answer.Patch)
				require.NoError(t, err)
				raw, err = patch.Apply(raw)
				require.NoError(t, err)
			}
			var now corev1.Pod
			require.NoError(t, json.Unmarshal(raw, &now))
			assert.Equal(t, c.wantGates, now.Spec.SchedulingGates)
			assert.Equal(t, c.wantScheduler, now.Spec.SchedulerName)
			assert.Equal(t, "true", now.Labels["slurmlet.dev/bridge"])
			for key, value := range c.labels {
				if key != "slurmlet.dev/bridge" {
					assert.Equal(t, value, now.Labels[key])
				}
			}
		})
	}
}
