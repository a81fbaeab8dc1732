package queue

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// What other makers of pods write to them.
const (
	completionIndex = "batch.kubernetes.io/job-completion-index"
	lwsName         = "leaderworkerset.sigs.k8s.io/name"
	lwsGroup        = "leaderworkerset.sigs.k8s.io/group-index"
	lwsSize         = "leaderworkerset.sigs.k8s.io/size"
	lwsIndex        = "leaderworkerset.sigs.k8s.io/worker-index"
	jobSetJobs      = "jobset.sigs.k8s.io/replicatedjob-name"
	jobSetJob       = "jobset.sigs.k8s.io/job-index"
	podGroupLabel   = "scheduling.x-k8s.io/pod-group"
	volcanoGroup    = "scheduling.k8s.io/group-name"
)

// Owner is what owns a pod, or the PodGroup that a pod names. The one that a pod names itself comes first in a chain.
type Owner struct {
	APIVersion, Kind, Name, UID string
	Annotations                 map[string]string
	// Size is how many pods it has at once: a Job's parallelism, a JobSet's sum, a PodGroup's least count. Whole is how many that
	// have ended well end it: a Job's completions, a JobSet's sum; 0 if their number does not say.
	Size, Whole int
	// Jobs are a JobSet's, in their order.
	Jobs []ReplicatedJob
	// Replicas is how many groups a LeaderWorkerSet has.
	Replicas int
	// Deadline is activeDeadlineSeconds of a Job; 0 for none.
	Deadline int64
	// End says how a Job or JobSet has ended.
	End OwnerEnd
	// Deleting says that somebody has deleted it.
	Deleting bool
}

// ReplicatedJob is one of a JobSet: as many Jobs, of as many pods each at once, and Whole of which complete it.
type ReplicatedJob struct {
	Name                  string
	Replicas, Pods, Whole int
}

// Group is a pod's.
type Group struct {
	// UID tells groups from one another, in a job's comment too. Name is the namespace and a name, for people.
	UID, Name string
	// Size is how many pods it has at once, and Whole how many that have ended well end it; 0 if their number does not say.
	Size, Whole int
	Gang        bool
	// Slot is the task that the pod's index asks for; -1 for any.
	Slot int
	// Watched is the owner whose end is the group's; empty for none. Index is which of a LeaderWorkerSet's groups it is.
	Watched string
	Index   int
	// Open says that it is a PodGroup's: more pods than Size belong to it, if they are there before its job, and each may have
	// an owner of its own. Watched is this pod's.
	Open bool
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

// SetOf is the LeaderWorkerSet that a pod names; empty if it names none. Its workers' chain of owners ends with their
// leader, which is a pod.
func SetOf(p *corev1.Pod) string {
	if p.Labels[lwsGroup] == "" {
		return ""
	}
	return p.Labels[lwsName]
}

// GroupOf is a pod's group. The error is a sentence for an event.
func GroupOf(p *corev1.Pod, owners []Owner) (Group, error) {
	one := Group{UID: string(p.UID), Name: p.Namespace + "/" + p.Name, Size: 1, Slot: -1}
	marks := Annotations(p, owners)
	if SetOf(p) != "" {
		return setGroup(p, owners, one)
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
		g := Group{UID: o.UID, Name: p.Namespace + "/" + o.Name, Size: o.Size, Whole: o.Whole, Gang: true, Slot: -1}
		switch o.Kind {
		case "Job":
			g.Slot, g.Watched = index(p.Annotations[completionIndex]), o.UID
		case "JobSet":
			g.Slot, g.Watched = o.slot(p), o.UID
		case "PodGroup":
			g.Open, g.Watched = true, top(owners[i+1:])
			if g.Watched == "" {
				g.Whole = g.Size // nobody can say more
			}
		}
		return g, nil
	}
	return one, nil
}

// setGroup is a group of a LeaderWorkerSet. One that is not known has no annotations.
func setGroup(p *corev1.Pod, owners []Owner, one Group) (Group, error) {
	size, err := strconv.Atoi(p.Annotations[lwsSize])
	if err != nil || size < 1 || size > mostTasks {
		return one, fmt.Errorf("the annotation %s of the pod is %q; a number from 1 to %d is allowed", lwsSize, p.Annotations[lwsSize], mostTasks)
	}
	name := p.Labels[lwsName] + "-" + p.Labels[lwsGroup] // and its leader's
	g := Group{UID: "lws." + name, Name: p.Namespace + "/" + name, Size: size, Whole: size, Gang: true, Slot: index(p.Labels[lwsIndex]), Index: index(p.Labels[lwsGroup])}
	for _, o := range owners {
		if o.Kind == "LeaderWorkerSet" {
			g.UID, g.Watched = o.UID+"."+p.Labels[lwsGroup], o.UID
		}
	}
	return g, nil
}

// slot is the task of a JobSet's pod: the Jobs' pods follow one another in the order of the JobSet.
func (o *Owner) slot(p *corev1.Pod) int {
	job, pod, before := index(p.Labels[jobSetJob]), index(p.Annotations[completionIndex]), 0
	for _, r := range o.Jobs {
		if r.Name == p.Labels[jobSetJobs] && job >= 0 && job < r.Replicas && pod >= 0 && pod < r.Pods {
			return before + job*r.Pods + pod
		}
		before += r.Replicas * r.Pods
	}
	return -1
}

// top is the highest owner of a pod in a PodGroup; empty if none is known.
func top(owners []Owner) (uid string) {
	for _, o := range owners {
		if o.Kind != "PodGroup" && o.Kind != "Workload" {
			uid = o.UID
		}
	}
	return uid
}

func has(owners []Owner, kind string) bool {
	for _, o := range owners {
		if o.Kind == kind {
			return true
		}
	}
	return false
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
		Alone: metav1.GetControllerOfNoCopy(p) == nil,
	}
	if !pod.Gated {
		pod.Place = placeOf(&p.ObjectMeta)
		pod.Scheduled, pod.Unscheduled = scheduled(p)
		pod.Refused = refused(p)
	}
	return pod
}

// rejected begins the message of a pod that a kubelet has not admitted, and preempting is the reason of one that it has ended for
// a critical pod.
const rejected, preempting = "Pod was rejected: ", "Preempting"

// refused is why a kubelet has not run a pod: its machine has not what the pod needs, whatever kube-scheduler has thought. It is
// empty for a pod that has failed by itself.
func refused(p *corev1.Pod) string {
	message, is := strings.CutPrefix(p.Status.Message, rejected)
	if p.Status.Phase != corev1.PodFailed || !is && p.Status.Reason != preempting {
		return ""
	}
	return strings.TrimSuffix(p.Status.Reason+": "+message, ": ")
}

// scheduled says whether a pod has its node, and why it has none where kube-scheduler says so.
func scheduled(p *corev1.Pod) (is bool, why string) {
	if p.Spec.NodeName != "" {
		return true, ""
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != corev1.PodReasonSchedulingGated {
			return false, cmp.Or(c.Message, c.Reason, "it does not say why")
		}
	}
	return false, ""
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
