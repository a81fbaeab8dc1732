package inject

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// TestUsersOfAnInjectedPod: the webhook gives a pod no list of users, because it cannot know whether the image reads one. A
// list that the pod mounts itself stays where libnss-extrausers and the agent read it.
func TestUsersOfAnInjectedPod(t *testing.T) {
	list := corev1.VolumeMount{Name: "users", MountPath: "/var/lib/extrausers", ReadOnly: true}
	for _, role := range []string{"slurmd", "login"} {
		pod := parsePod(t, "metadata: {generateName: a-, annotations: {slurmlet.dev/inject: "+role+"}}\n"+
			"spec: {containers: [{name: slurm, image: registry.example/slurm:1}]}\n")
		result, faults := Pod(pod, settings)
		require.Empty(t, faults)
		for _, mount := range result.Pod.Spec.Containers[0].VolumeMounts {
			require.NotEqual(t, list.MountPath, mount.MountPath, role)
		}
		pod.Spec.Volumes = []corev1.Volume{{Name: "users", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "slurm-users"}},
		}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{list}
		result, faults = Pod(pod, settings)
		require.Empty(t, faults)
		require.Contains(t, result.Pod.Spec.Containers[0].VolumeMounts, list, role)
		require.Contains(t, result.Pod.Spec.Volumes, pod.Spec.Volumes[0], role)
	}
}
