package queue

import (
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// What other makers of pods write to them.
const (
	completionIndex = "batch.kubernetes.io/job-completion-index"
	lwsGroup        = "leaderworkerset.sigs.k8s.io/group-key"
	lwsSize         = "leaderworkerset.sigs.k8s.io/size"
	lwsIndex        = "leaderworkerset.sigs.k8s.io/worker-index"
	podGroupLabel   = "scheduling.x-k8s.io/pod-group"
	volcanoGroup    = "scheduling.k8s.io/group-name"
)

// Owner is what owns a pod, or the PodGroup that a pod names. The one that a pod names itself comes first in a chain.
type Owner struct {
	Kind, Name, UID string
	Annotations     map[string]string
	// Size is how many pods it has at once: a Job's parallelism, a JobSet's sum, a PodGroup's least count.
	Size int
	// Deadline is activeDeadlineSeconds of a Job; 0 for none.
	Deadline int64
	// End says how a Job or JobSet has ended.
	End OwnerEnd
}

// Group is a pod's.
type Group struct {
	// UID tells groups from one another, in a job's comment too. Name is the namespace and a name, for people.
	UID, Name string
	Size      int
	Gang      bool
	// Slot is the task that the pod's index asks for; -1 for any.
	Slot int
	// Watched is the owner whose end is the group's; empty for none.
	Watched string
}

// PodGroupOf is the PodGroup that a pod names: its kind (an API group), and its name. Both are empty if it names none.
func PodGroupOf(p *corev1.Pod) (group, name string) {
	switch {
	case p.Spec.SchedulingGroup != nil && p.Spec.SchedulingGroup.PodGroupName != nil && *p.Spec.SchedulingGroup.PodGroupName != "":
		return "scheduling.k8s.io", *p.Spec.SchedulingGroup.PodGroupName
	case p.Labels[podGroupLabel] != "":
		return "scheduling.x-k8s.io", p.Labels[podGroupLabel]
	case p.Annotations[volcanoGroup] != "":
		return "scheduling.volcano.sh", p.Annotations[volcanoGroup]
	}
	return "", ""
}

// GroupOf is a pod's group. The error is a sentence for an event.
func GroupOf(p *corev1.Pod, owners []Owner) (Group, error) {
	one := Group{UID: string(p.UID), Name: p.Namespace + "/" + p.Name, Size: 1, Slot: -1}
	marks := Annotations(p, owners)
	if p.Labels[lwsGroup] != "" {
		size, err := strconv.Atoi(p.Annotations[lwsSize])
		if err != nil || size < 1 || size > mostTasks {
			return one, fmt.Errorf("the annotation %s of the pod is %q; a number from 1 to %d is allowed", lwsSize, p.Annotations[lwsSize], mostTasks)
		}
		return Group{UID: "lws." + p.Labels[lwsGroup], Name: p.Namespace + "/" + named(p, owners, "LeaderWorkerSet"), Size: size, Gang: true, Slot: index(p.Labels[lwsIndex])}, nil
	}
	for i := range owners {
		o := &owners[i]
		gang := o.Kind == "PodGroup" || o.Kind == "JobSet" && marks[wellknown.Gang] != "false" || o.Kind == "Job" && marks[wellknown.Gang] == "true" && !has(owners, "JobSet")
		if !gang {
			continue
		}
		if o.Size < 1 || o.Size > mostTasks {
			return one, fmt.Errorf("the %s %s has %d pods at once; 1 to %d are allowed", o.Kind, o.Name, o.Size, mostTasks)
		}
		g := Group{UID: o.UID, Name: p.Namespace + "/" + o.Name, Size: o.Size, Gang: true, Slot: -1}
		if o.Kind == "Job" {
			g.Slot = index(p.Annotations[completionIndex])
		}
		if o.Kind != "PodGroup" {
			g.Watched = o.UID
		}
		return g, nil
	}
	return one, nil
}

func has(owners []Owner, kind string) bool {
	for _, o := range owners {
		if o.Kind == kind {
			return true
		}
	}
	return false
}

func named(p *corev1.Pod, owners []Owner, kind string) string {
	for _, o := range owners {
		if o.Kind == kind {
			return o.Name
		}
	}
	return p.Name
}

func index(text string) int {
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return n
	}
	return -1
}

// Annotations are the pod's and its owners'. What is nearer to the top counts.
func Annotations(p *corev1.Pod, owners []Owner) map[string]string {
	all := maps.Clone(p.Annotations)
	if all == nil {
		all = map[string]string{}
	}
	for _, o := range owners {
		maps.Copy(all, o.Annotations)
	}
	return all
}

// Gated says whether a pod has the gate.
func Gated(p *corev1.Pod) bool { return GateIndex(p) >= 0 }

// GateIndex is where a pod has the gate; -1 if it has none.
func GateIndex(p *corev1.Pod) int {
	for i, g := range p.Spec.SchedulingGates {
		if g.Name == wellknown.Gate {
			return i
		}
	}
	return -1
}

// PodOf is what the machine sees of a pod.
func PodOf(p *corev1.Pod, g Group) Pod {
	pod := Pod{
		UID: string(p.UID), Name: p.Namespace + "/" + p.Name, Created: p.CreationTimestamp.Time, Gated: Gated(p), Deleting: p.DeletionTimestamp != nil,
		Over: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed, Status: status(p), Slot: g.Slot,
	}
	if !pod.Gated {
		pod.Place = placeOf(&p.ObjectMeta)
	}
	return pod
}

// placeOf is what the controller has written to a pod.
func placeOf(m *metav1.ObjectMeta) (place Place) {
	job, err := strconv.ParseUint(m.Labels[wellknown.Job], 10, 32)
	if err != nil {
		return Place{}
	}
	place.Job, place.Node = uint32(job), m.Annotations[wellknown.SlurmNode]
	if _, err := fmt.Sscanf(m.Annotations[wellknown.JobRun], "%d.%d.%d", &place.Run.Restarts, &place.Run.Start, &place.Rank); err != nil {
		return Place{Job: place.Job, Node: place.Node}
	}
	return place
}

// String is the value of wellknown.JobRun.
func (p Place) String() string { return fmt.Sprintf("%d.%d.%d", p.Run.Restarts, p.Run.Start, p.Rank) }

// status is a pod's exit status: its containers' greatest.
func status(p *corev1.Pod) int {
	if p.Status.Phase != corev1.PodFailed {
		return 0
	}
	most := 1
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil {
			most = max(most, int(t.ExitCode))
		}
	}
	return min(most, 255)
}
