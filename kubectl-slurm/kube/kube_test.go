package kube

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/kubectl-slurm/why"
)

// TestDescribe: what Kubernetes has of a pod in each state that matters.
func TestDescribe(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 28, 7, 0, 0, 0, time.UTC))
	grace := int64(60)
	deleted := metav1.NewTime(at.Add(time.Minute))
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "n0", Labels: map[string]string{"slurmlet.dev/role": "slurmd", "slurmlet.dev/node-set": "cpu"}}}
		p.Spec.Containers = []corev1.Container{{Name: "sidecar"}, {Name: "slurmd"}}
		p.Status.Phase = corev1.PodRunning
		change(p)
		return p
	}
	for name, one := range map[string]struct {
		pod  *corev1.Pod
		want func(*why.Pod)
	}{
		"ready": {pod(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}), func(w *why.Pod) { w.Ready = true }},
		"without a machine": {pod(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/2"}}
		}), func(w *why.Pod) { w.Phase, w.Unscheduled = "Pending", "Unschedulable: 0/2" }},
		"an image": {pod(func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", Image: "x:y", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no"}}}}
		}), func(w *why.Pod) { w.Waits, w.WaitsFor, w.Image = "ErrImagePull", "no", "x:y" }},
		"killed for memory": {pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "sidecar", RestartCount: 9},
				{Name: "slurmd", RestartCount: 2, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137, FinishedAt: at}}},
			}
		}), func(w *why.Pod) { w.LastEnd, w.LastStatus, w.EndedAt, w.Restarts = "OOMKilled", 137, at.Time, 2 }},
		"deleted": {pod(func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &deleted, &grace }), func(w *why.Pod) { w.Deleting, w.Grace = at.Time, 60 }},
		"evicted": {pod(func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "low on memory"
		}), func(w *why.Pod) { w.Phase, w.Reason, w.Message = "Failed", "Evicted", "low on memory" }},
	} {
		t.Run(name, func(t *testing.T) {
			want := &why.Pod{Name: "n0", Role: "slurmd", Set: "cpu", Phase: "Running"}
			one.want(want)
			assert.Equal(t, want, Describe(one.pod))
			assert.Equal(t, "slurmd", Container(one.pod))
		})
	}
}

func TestMissingRight(t *testing.T) {
	assert.EqualError(t, &MissingRight{Right{Verb: "create", Resource: "pods", Subresource: "exec", Namespace: "hpc"}, "said"},
		"you may not create pods/exec in namespace hpc (kubectl auth can-i create pods/exec -n hpc): said")
	assert.EqualError(t, &MissingRight{Right{Verb: "get", Resource: "nodes"}, "said"}, "you may not get nodes in the whole cluster (kubectl auth can-i get nodes): said")
}
