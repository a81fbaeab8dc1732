package pods

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func elastic(p *corev1.Pod) { p.Labels[ElasticLabel] = "gpu" }

func waiting(name, reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func TestNotRunning(t *testing.T) {
	crashed := waiting("slurmd", "CrashLoopBackOff", "back-off 10s restarting failed container=slurmd pod=cpu-1_hpc(1)")
	crashed.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 78, Reason: "Error", Message: "SLURMLET_X: there is no such variable\n"}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   *NotRunning
	}{
		"it runs": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, nil},
		"it starts": {func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.ContainerStatuses = []corev1.ContainerStatus{waiting("slurmd", "ContainerCreating", ""), waiting("b", "PodInitializing", "")}
		}, nil},
		"no machine has room": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available", LastTransitionTime: metav1.NewTime(old)}}
		}, &NotRunning{"Unschedulable", "0/3 nodes are available", old}},
		"no image": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{waiting("slurmd", "ImagePullBackOff", "Back-off pulling image")}
		}, &NotRunning{Reason: "ImagePullBackOff", Note: "container slurmd: Back-off pulling image"}},
		"no image of an init container": {func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{waiting("agent", "InvalidImageName", "no")}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{waiting("slurmd", "PodInitializing", "")}
		}, &NotRunning{Reason: "InvalidImageName", Note: "container agent: no"}},
		"it crashes": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{crashed}
		}, &NotRunning{Reason: "CrashLoopBackOff", Note: "container slurmd: it exits with status 78: SLURMLET_X: there is no such variable"}},
		"evicted": {func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
		}, &NotRunning{Reason: "Evicted", Note: "The node was low on resource: memory."}},
		"failed without a word": {func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "slurmd", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}}}
		}, &NotRunning{Reason: "PodFailed", Note: "container slurmd: it exits with status 137 (OOMKilled)"}},
		"succeeded": {in(corev1.PodSucceeded), &NotRunning{Reason: "PodSucceeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, pod("1", elastic, c.change).NotRunning)
			assert.Nil(t, pod("1", c.change).NotRunning, "nobody asks of other pods")
		})
	}
}
