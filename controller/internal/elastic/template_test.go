package elastic

import (
	"strings"
	"testing"
	"unique"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var gpu = unique.Make("gpu")

var burst = set{"hpc", "slurm", "gpu"}

func template(change func(*corev1.PodTemplateSpec)) *corev1.PodTemplate {
	t := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "slurm-gpu", UID: "t", Labels: map[string]string{"slurmlet.dev/cluster": "slurm", "slurmlet.dev/elastic": "gpu"}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}, Annotations: map[string]string{"a": "b"}},
			Spec: corev1.PodSpec{Subdomain: "slurm", Containers: []corev1.Container{{
				Name: "slurmd", Image: "slurm", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
				}},
			}}},
		},
	}
	if change != nil {
		change(&t.Template)
	}
	return t
}

func TestBuild(t *testing.T) {
	from := template(nil)
	p := build(burst, "c-1", from)
	assert.Equal(t, metav1.ObjectMeta{
		Namespace: "hpc", Name: "c-1", Annotations: map[string]string{"a": "b"},
		Labels: map[string]string{
			"app": "x", "slurmlet.dev/cluster": "slurm", "slurmlet.dev/role": "slurmd", "slurmlet.dev/node-set": "gpu", "slurmlet.dev/elastic": "gpu",
		},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "PodTemplate", Name: "slurm-gpu", UID: "t", Controller: new(true)}},
	}, p.ObjectMeta)
	assert.Equal(t, "c-1", p.Spec.Hostname)
	assert.Equal(t, "slurm", p.Spec.Subdomain)
	assert.Equal(t, template(nil), from, "the template stays as it is")
}

func TestChoose(t *testing.T) {
	second := template(nil)
	second.Name = "other"
	gone := template(nil)
	gone.DeletionTimestamp = new(metav1.Now())
	sidecar := func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "sidecar"})
	}
	for name, c := range map[string]struct {
		all  []*corev1.PodTemplate
		want string
	}{
		"none":               {nil, "NoTemplate: the namespace hpc has no PodTemplate with the labels slurmlet.dev/cluster=slurm and slurmlet.dev/elastic=gpu"},
		"one that goes":      {[]*corev1.PodTemplate{gone}, "NoTemplate: the namespace hpc has no PodTemplate with the labels slurmlet.dev/cluster=slurm and slurmlet.dev/elastic=gpu"},
		"one":                {[]*corev1.PodTemplate{template(nil)}, ""},
		"one, and a sidecar": {[]*corev1.PodTemplate{template(sidecar)}, ""},
		"two":                {[]*corev1.PodTemplate{template(nil), second}, "BadTemplate: the PodTemplates other and slurm-gpu are both for the set"},
		"no limits": {[]*corev1.PodTemplate{template(func(t *corev1.PodTemplateSpec) {
			delete(t.Spec.Containers[0].Resources.Limits, corev1.ResourceMemory)
		})}, "BadTemplate: the PodTemplate slurm-gpu cannot be used: the container slurmd has no limit of memory, which is the node's size"},
		"limits of the pod": {[]*corev1.PodTemplate{template(func(t *corev1.PodTemplateSpec) {
			t.Spec.Resources, t.Spec.Containers[0].Resources = &t.Spec.Containers[0].Resources, corev1.ResourceRequirements{}
			t.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1")}}
		})}, ""},
		"many faults": {[]*corev1.PodTemplate{template(func(t *corev1.PodTemplateSpec) {
			t.Labels["slurmlet.dev/role"] = "login"
			t.Spec.HostNetwork, t.Spec.HostPID, t.Spec.RestartPolicy, t.Spec.ActiveDeadlineSeconds = true, true, corev1.RestartPolicyNever, new(int64(60))
			t.Spec.NodeName, t.Spec.Hostname, t.Spec.SetHostnameAsFQDN = "m1", "h", new(true)
		})}, "BadTemplate: the PodTemplate slurm-gpu cannot be used: " + strings.Join([]string{
			"spec.activeDeadlineSeconds is 60: want none, because Slurm ends the node",
			"spec.hostNetwork is true, and the pod would have its machine's name and address",
			"spec.hostPID or spec.shareProcessNamespace is true, and the agent must be PID 1",
			"spec.hostname is h: want none, because it is the node's name",
			"spec.hostnameOverride or spec.setHostnameAsFQDN is set, and the host name must be the node's",
			"spec.nodeName is m1: want none, because the scheduler chooses the machine",
			"spec.restartPolicy is Never: want Always",
			"the label slurmlet.dev/role is login: want slurmd, or none",
		}, "; ")},
		"nobody is slurmd": {[]*corev1.PodTemplate{template(func(t *corev1.PodTemplateSpec) {
			sidecar(t)
			t.Spec.Containers[0].Name = "node"
		})}, "BadTemplate: the PodTemplate slurm-gpu cannot be used: it has several containers and none is named slurmd"},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, trouble := choose(burst, c.all)
			if c.want == "" {
				require.Nil(t, trouble)
				assert.NotNil(t, chosen)
				return
			}
			require.NotNil(t, trouble)
			assert.Equal(t, c.want, trouble.Reason+": "+trouble.Note)
		})
	}
}
