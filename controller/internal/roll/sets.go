package roll

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// The annotations of a StatefulSet or DaemonSet.
const (
	// Annotation asks for rolling updates: how many pods at once, as a number or a percentage.
	Annotation = wellknown.Roll
	// BusyAnnotation has pods with jobs deleted, too, if it is "true".
	BusyAnnotation = wellknown.RollBusy
)

// set is what the controller keeps of a StatefulSet or DaemonSet, most of it only where that asks for rolling updates.
type set struct {
	metav1.ObjectMeta
	kind     string
	selector string
	// atOnce is the annotation, and busy the other one.
	atOnce string
	busy   bool
	want   int
	nodes  nodes
	// settled: the set's controller has seen the present revision.
	settled bool
	// revision is the present one's name, or empty where the ControllerRevisions tell it.
	revision string
	fault    string
}

func (s *set) key() string { return s.kind + " " + s.Namespace + "/" + s.Name }

// trim keeps a StatefulSet or DaemonSet that asks for rolling updates, and of others that they are there, and the names of a
// StatefulSet's nodes.
func trim(object any) (any, error) {
	switch from := object.(type) {
	case *appsv1.StatefulSet:
		s := newSet("StatefulSet", from.ObjectMeta, from.Spec.Selector, from.Spec.Template.Labels, from.Status.ObservedGeneration)
		s.want, s.revision, s.nodes = 1, from.Status.UpdateRevision, nodesOf(from)
		if from.Spec.Replicas != nil {
			s.want = int(*from.Spec.Replicas)
		}
		s.strategy(string(from.Spec.UpdateStrategy.Type))
		return s, nil
	case *appsv1.DaemonSet:
		s := newSet("DaemonSet", from.ObjectMeta, from.Spec.Selector, from.Spec.Template.Labels, from.Status.ObservedGeneration)
		s.want = int(from.Status.DesiredNumberScheduled)
		s.strategy(string(from.Spec.UpdateStrategy.Type))
		return s, nil
	}
	return object, nil
}

func newSet(kind string, m metav1.ObjectMeta, selector *metav1.LabelSelector, labels map[string]string, observed int64) *set {
	s := &set{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation},
		kind:       kind, atOnce: m.Annotations[Annotation], busy: m.Annotations[BusyAnnotation] == "true",
	}
	if s.atOnce == "" {
		return s
	}
	s.selector, s.settled = metav1.FormatLabelSelector(selector), observed >= m.Generation
	if _, err := s.number(); err != nil {
		s.fault = fmt.Sprintf("The annotation %s is %q: %v.", Annotation, s.atOnce, err)
	} else if busy := m.Annotations[BusyAnnotation]; busy != "" && busy != "true" && busy != "false" {
		s.fault = fmt.Sprintf("The annotation %s is %q: want true or false.", BusyAnnotation, busy)
	} else if labels[pods.ClusterLabel] == "" || labels[pods.RoleLabel] != string(role.Slurmd) {
		s.fault = fmt.Sprintf("The annotation %s is for nodes: the pods want the labels %s and %s=slurmd.", Annotation, pods.ClusterLabel, pods.RoleLabel)
	}
	return s
}

// strategy refuses a set whose own controller replaces pods, because it takes no care of jobs.
func (s *set) strategy(kind string) {
	if s.atOnce != "" && s.fault == "" && kind != "OnDelete" {
		s.fault = fmt.Sprintf("The annotation %s wants the updateStrategy OnDelete, and it is %s: Kubernetes itself replaces the pods, in their order.", Annotation, kind)
	}
}

// number is how many pods may be away at once.
func (s *set) number() (int, error) {
	n := intstr.Parse(s.atOnce)
	got, err := intstr.GetScaledValueFromIntOrPercent(&n, s.want, false)
	if err != nil || got < 0 || n.Type == intstr.Int && got < 1 {
		return 0, fmt.Errorf("want a number from 1, or a percentage as in 10%%")
	}
	return max(got, 1), nil
}

// current is the name or hash of the present revision, as pods have it in their label.
func (r *Roller) current(ctx context.Context, s *set) (string, error) {
	if s.kind == "StatefulSet" {
		return s.revision, nil
	}
	key := string(s.UID) + " " + strconv.FormatInt(s.Generation, 10)
	if hash, known := r.hashes[s.UID]; known && hash.of == key {
		return hash.name, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	list, err := r.api.AppsV1().ControllerRevisions(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: s.selector})
	if err != nil {
		return "", fmt.Errorf("cannot ask for the revisions: %w", err)
	}
	var newest *appsv1.ControllerRevision
	for i, one := range list.Items {
		if metav1.IsControlledBy(&one, s) && (newest == nil || one.Revision > newest.Revision) {
			newest = &list.Items[i]
		}
	}
	if newest == nil {
		return "", nil
	}
	name := newest.Labels[appsv1.ControllerRevisionHashLabelKey]
	r.hashes[s.UID] = hash{key, name}
	return name, nil
}

// hash is a DaemonSet's revision, and of which generation.
type hash struct{ of, name string }

// planned is the set as Plan takes it.
func (s *set) planned(revision string, all []*pods.Pod, state func(*pods.Pod) Pod) Set {
	atOnce, _ := s.number() // it has been judged
	p := Set{Want: s.want, AtOnce: atOnce, Busy: s.busy}
	for _, one := range all {
		if one.Owner != s.UID || one.Over || one.Role.Value() != role.Slurmd || one.Label.Value() == "" {
			continue // it is away, or no node
		}
		pod := state(one)
		pod.Old = one.Revision.Value() != revision
		p.Pods = append(p.Pods, pod)
	}
	return p
}

// uids are what is remembered of pods.
type uids map[types.UID]bool
