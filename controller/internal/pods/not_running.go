package pods

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// NotRunning is why a pod does not run, in Kubernetes' words.
type NotRunning struct {
	Reason, Note string
	// Since is zero where Kubernetes does not tell.
	Since time.Time
}

// The reasons that Kubernetes has no word for.
const (
	failedPod    = "PodFailed"
	succeededPod = "PodSucceeded"
)

// passing are the reasons of containers that wait for their turn.
var passing = map[string]bool{"": true, "ContainerCreating": true, "PodInitializing": true}

// notRunning is nil for a pod that runs, or that nothing keeps from it.
func notRunning(p *corev1.Pod) *NotRunning {
	switch p.Status.Phase {
	case corev1.PodFailed:
		return &NotRunning{Reason: cmp.Or(word(p.Status.Reason), failedPod), Note: cmp.Or(p.Status.Message, ended(p))}
	case corev1.PodSucceeded:
		return &NotRunning{Reason: succeededPod, Note: ended(p)}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return &NotRunning{Reason: cmp.Or(word(c.Reason), corev1.PodReasonUnschedulable), Note: c.Message, Since: c.LastTransitionTime.Time}
		}
	}
	for _, all := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range all {
			if waits := c.State.Waiting; waits != nil && !passing[waits.Reason] {
				note := waits.Message
				if last := c.LastTerminationState.Terminated; last != nil {
					note = termination(last) // Kubernetes' sentence has the pod's name and the next try
				}
				return &NotRunning{Reason: cmp.Or(word(waits.Reason), failedPod), Note: "container " + c.Name + ": " + note}
			}
		}
	}
	return nil
}

// ended names the container that ended a pod.
func ended(p *corev1.Pod) string {
	for _, all := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range all {
			if last := c.State.Terminated; last != nil && (last.ExitCode != 0 || p.Status.Phase == corev1.PodSucceeded) {
				return "container " + c.Name + ": " + termination(last)
			}
		}
	}
	return ""
}

func termination(t *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("it exits with status %d", t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" && t.Reason != "Completed" {
		text += " (" + t.Reason + ")"
	}
	if message := strings.TrimSpace(t.Message); message != "" {
		text += ": " + message
	}
	return text
}

// word is a reason of one word, or nothing.
func word(reason string) string {
	if strings.ContainsAny(reason, " \t\n") {
		return ""
	}
	return reason
}
