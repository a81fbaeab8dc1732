package inject

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// slurmBridge is the scheduler of slurm-bridge, which nobody runs where slurmlet has its pods wait.
const slurmBridge = "slurm-bridge-scheduler"

// queued has a pod wait in Slurm's queue. It does what the MutatingAdmissionPolicy of charts/slurmlet does where the API
// server has that kind. A pod that names its node stays as it is: the API server takes no gate with it, and the
// ValidatingAdmissionPolicy refuses it in words, but for a static pod's mirror pod.
func queued(pod *corev1.Pod) (*Result, field.ErrorList) {
	to := pod.DeepCopy()
	if to.Spec.NodeName != "" {
		return &Result{Pod: to}, nil
	}
	put(&to.Labels, wellknown.Bridge, "true")
	if to.Spec.SchedulerName == "" || to.Spec.SchedulerName == slurmBridge {
		to.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	gate := corev1.PodSchedulingGate{Name: wellknown.Gate}
	if !slices.Contains(to.Spec.SchedulingGates, gate) {
		to.Spec.SchedulingGates = append(to.Spec.SchedulingGates, gate)
	}
	return &Result{Pod: to}, nil
}
