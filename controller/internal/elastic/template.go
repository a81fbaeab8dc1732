package elastic

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// set is an elastic node set: a cluster's namespace and label, and the set's name.
type set struct{ namespace, cluster, name string }

func (s set) String() string { return s.in() + " " + s.name }

// in is the cluster's name, as reports have it.
func (s set) in() string { return s.namespace + "/" + s.cluster }

// of is the set that a PodTemplate is for.
func of(t *corev1.PodTemplate) set {
	return set{t.Namespace, t.Labels[pods.ClusterLabel], t.Labels[pods.ElasticLabel]}
}

// choose finds the template of a set among those that are there.
func choose(s set, all []*corev1.PodTemplate) (*corev1.PodTemplate, *Trouble) {
	all = slices.DeleteFunc(slices.Clone(all), func(t *corev1.PodTemplate) bool { return t.DeletionTimestamp != nil })
	slices.SortFunc(all, func(a, b *corev1.PodTemplate) int { return cmp.Compare(a.Name, b.Name) })
	switch len(all) {
	case 0:
		return nil, &Trouble{Reason: noTemplate, Note: fmt.Sprintf(
			"the namespace %s has no PodTemplate with the labels %s=%s and %s=%s", s.namespace, pods.ClusterLabel, s.cluster, pods.ElasticLabel, s.name)}
	case 1:
		if faults := check(s, &all[0].Template); len(faults) > 0 {
			return all[0], &Trouble{Reason: badTemplate, Note: fmt.Sprintf("the PodTemplate %s cannot be used: %s", all[0].Name, strings.Join(faults, "; "))}
		}
		return all[0], nil
	}
	return all[0], &Trouble{Reason: badTemplate, Note: fmt.Sprintf("the PodTemplates %s and %s are both for the set", all[0].Name, all[1].Name)}
}

// check names the values of a template with which a pod would be no node.
func check(s set, t *corev1.PodTemplateSpec) (faults []string) {
	fault := func(format string, values ...any) { faults = append(faults, fmt.Sprintf(format, values...)) }
	spec := t.Spec
	if spec.HostNetwork {
		fault("spec.hostNetwork is true, and the pod would have its machine's name and address")
	}
	if spec.HostPID || spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace {
		fault("spec.hostPID or spec.shareProcessNamespace is true, and the agent must be PID 1")
	}
	if spec.RestartPolicy != "" && spec.RestartPolicy != corev1.RestartPolicyAlways {
		fault("spec.restartPolicy is %s: want Always", spec.RestartPolicy)
	}
	if spec.ActiveDeadlineSeconds != nil {
		fault("spec.activeDeadlineSeconds is %d: want none, because Slurm ends the node", *spec.ActiveDeadlineSeconds)
	}
	if spec.NodeName != "" {
		fault("spec.nodeName is %s: want none, because the scheduler chooses the machine", spec.NodeName)
	}
	if spec.Hostname != "" {
		fault("spec.hostname is %s: want none, because it is the node's name", spec.Hostname)
	}
	if spec.HostnameOverride != nil || spec.SetHostnameAsFQDN != nil && *spec.SetHostnameAsFQDN {
		fault("spec.hostnameOverride or spec.setHostnameAsFQDN is set, and the host name must be the node's")
	}
	for label, want := range labels(s) {
		if is, has := t.Labels[label]; has && is != want {
			fault("the label %s is %s: want %s, or none", label, is, want)
		}
	}
	faults = append(faults, checkLimits(t)...)
	slices.Sort(faults)
	return faults
}

// checkLimits: the node's record has the size of the limits, and a pod without them has its machine's.
func checkLimits(t *corev1.PodTemplateSpec) (faults []string) {
	i := main(t)
	if i < 0 {
		return []string{"it has several containers and none is named slurmd"}
	}
	c := t.Spec.Containers[i]
	for _, kind := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, has := c.Resources.Limits[kind]
		if !has && t.Spec.Resources != nil {
			limit, has = t.Spec.Resources.Limits[kind]
		}
		if !has || limit.IsZero() {
			faults = append(faults, fmt.Sprintf("the container %s has no limit of %s, which is the node's size", c.Name, kind))
		}
	}
	return faults
}

// main is the container that runs slurmd.
func main(t *corev1.PodTemplateSpec) int {
	named := cmp.Or(t.Annotations[wellknown.Container], string(role.Slurmd))
	i := slices.IndexFunc(t.Spec.Containers, func(c corev1.Container) bool { return c.Name == named })
	if i < 0 && len(t.Spec.Containers) == 1 {
		return 0
	}
	return i
}

// labels are those of all pods of a set.
func labels(s set) map[string]string {
	return map[string]string{pods.ClusterLabel: s.cluster, pods.RoleLabel: string(role.Slurmd), pods.NodeSetLabel: s.name, pods.ElasticLabel: s.name}
}

// build makes the pod of a node.
func build(s set, node string, from *corev1.PodTemplate) *corev1.Pod {
	t := from.Template.DeepCopy()
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	maps.Copy(t.Labels, labels(s))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: node, Labels: t.Labels, Annotations: t.Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "PodTemplate", Name: from.Name, UID: from.UID, Controller: new(true)}},
		},
		Spec: t.Spec,
	}
	p.Spec.Hostname = node
	return p
}
