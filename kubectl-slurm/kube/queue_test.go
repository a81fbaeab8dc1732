package kube

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestQueue: the pods of a namespace that are in Slurm's queue, in each state.
func TestQueue(t *testing.T) {
	at := time.Date(2026, 11, 28, 7, 0, 0, 0, time.UTC)
	n := 0
	pod := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		n++
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(at.Add(time.Duration(n) * time.Minute)),
			Labels: map[string]string{"slurmlet.dev/bridge": "true"}, Annotations: map[string]string{},
		}}
		p.Status.Phase = corev1.PodPending
		change(p)
		return p
	}
	granted := func(p *corev1.Pod) {
		p.Labels["slurmlet.dev/job"], p.Annotations["slurmlet.dev/slurm-node"] = "7", "n1"
	}
	event := func(of, reason, message string, after time.Duration) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: of + reason + message}, Reason: reason, Message: message,
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", UID: types.UID(of)}, LastTimestamp: metav1.NewTime(at.Add(after)),
		}
	}
	api := fake.NewClientset(
		pod("waits", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "slurmlet.dev/slurm"}} }),
		pod("granted", func(p *corev1.Pod) {
			granted(p)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/2 nodes"}}
		}),
		pod("runs", func(p *corev1.Pod) { granted(p); p.Spec.NodeName, p.Status.Phase = "m1", corev1.PodRunning }),
		pod("ending", func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp = "m1", corev1.PodRunning, &metav1.Time{Time: at}
			p.Finalizers = []string{"test/keeps"}
		}),
		pod("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("plain", func(p *corev1.Pod) { p.Labels = nil }),
		event("waits", "Waiting", "Slurm job 8 waits: Resources.", 2*time.Minute),
		event("waits", "Queued", "The pod waits for Slurm job 8 of the user alice.", time.Minute),
		event("waits", "FailedMount", "of somebody else", time.Hour),
		event("granted", "Granted", "Slurm job 7 has n1.", time.Minute),
		event("runs", "Granted", "Slurm job 7 has n1.", time.Minute),
	)
	c := &Client{api: api, Namespace: "team"}
	pods, missing, err := c.Queue(t.Context())
	require.NoError(t, err)
	require.NoError(t, missing)
	assert.Equal(t, []QueuedPod{
		{"waits", "Waits", "", "", at.Add(1 * time.Minute), "Slurm job 8 waits: Resources."},
		{"granted", "Granted", "7", "n1", at.Add(2 * time.Minute), "0/2 nodes"},
		{"runs", "Running", "7", "n1", at.Add(3 * time.Minute), "Slurm job 7 has n1."},
		{"ending", "Ending", "", "", at.Add(4 * time.Minute), ""},
	}, pods)

	api.PrependReactor("list", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))
	})
	pods, missing, err = c.Queue(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, missing, "you may not list events in namespace team")
	assert.Len(t, pods, 4)
}
