//go:build e2e

package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
)

// TestRefresh has slurmctld's pod get an annotation for each edit of a ConfigMap, with the rights that the chart gives for
// the named ones. No kubelet is there: e2e/kube has one.
func TestRefresh(t *testing.T) {
	t.Parallel()
	b := newBedWith(t, []string{home, "hpc", "lab"}, "--set", "scaleIn.enabled=false,configMaps={hpc/slurm,lab/slurm}")
	const named = "SLURMLET_CONFIG_MAPS=hpc/slurm,lab/slurm"
	b.replica(named, "SLURMLET_SCALE_IN=false").ready()
	b.replica(named, "SLURMLET_SCALE_IN=false").ready()
	b.run([]story{
		{"an edit is an annotation of slurmctld's pod", refreshed},
		{"what no kubelet delivers has an event", notDelivered},
		{"another leader", otherLeader},
		{"the rights are for the named ConfigMaps alone", configMapRights},
		{"the chart gives the rights that are used", rights},
	})
}

// versionOf is the annotation by which the kubelet delivers.
func (b *bed) versionOf(p *corev1.Pod) string {
	return b.read(p).Annotations["slurmlet.dev/config-version"]
}

// mount makes slurmctld's pod with a ConfigMap, and a report of what its agent has of it.
func (b *bed) mount(namespace, cluster, name string) (p *corev1.Pod, report func(text string)) {
	b.Helper()
	p, err := b.kube.CoreV1().Pods(namespace).Create(b.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: cluster + "-slurmctld-0", Labels: map[string]string{"slurmlet.dev/cluster": cluster, "slurmlet.dev/role": "slurmctld"}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "c", Image: "slurm"}},
			Volumes: []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}},
		},
	}, metav1.CreateOptions{})
	require.NoError(b, err)
	b.address(p, "10.1.0.1")
	reporter := b.agent(p).reporter(b, nil)
	reporter.Set(nil, time.Now())
	return p, func(text string) { reporter.SetConf(confset.TextsDigest(map[string]string{confset.Main: text})) }
}

// configMap makes a ConfigMap with slurm.conf.
func (b *bed) configMap(namespace, text string) *corev1.ConfigMap {
	b.Helper()
	made, err := b.kube.CoreV1().ConfigMaps(namespace).Create(b.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "slurm"}, Data: map[string]string{confset.Main: text},
	}, metav1.CreateOptions{})
	require.NoError(b, err)
	return made
}

// edit changes the ConfigMap slurm of a namespace, and returns its version.
func (b *bed) edit(namespace, text string) string {
	b.Helper()
	patch := fmt.Sprintf(`{"data":{"slurm.conf":%q}}`, text)
	now, err := b.kube.CoreV1().ConfigMaps(namespace).Patch(b.Context(), "slurm", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(b, err)
	return now.ResourceVersion
}

// tried: an annotation asks for a version, for the first time or, on a loaded machine, again.
func tried(annotation, version string) bool {
	return annotation == version || strings.HasPrefix(annotation, version+"-")
}

func refreshed(b *bed) {
	b.configMap("hpc", "v0")
	ctld, report := b.mount("hpc", "slurm", "slurm")
	other, _ := b.mount("hpc", "x", "other")
	node := b.pod(spec{"hpc", "slurm-cpu-0", "slurm", "slurmd", "cpu", "", "", []string{"10.1.0.2"}})
	report("v0")
	var slowest time.Duration
	for n := range 20 {
		text := fmt.Sprintf("v%d", n+1)
		began := time.Now()
		version := b.edit("hpc", text)
		b.eventually(patience, "the annotation "+version, func() bool { return tried(b.versionOf(ctld), version) })
		slowest = max(slowest, time.Since(began))
		report(text)
	}
	b.Logf("slurmctld's pod has the annotation after at most %v", slowest.Round(time.Millisecond))
	version := b.edit("hpc", "v21") // which is not reported in time
	b.eventually(patience, "another try", func() bool { return strings.HasPrefix(b.versionOf(ctld), version+"-") })
	report("v21")
	for _, p := range []*corev1.Pod{other, node} {
		assert.Empty(b, b.versionOf(p), p.Name)
	}
}

func notDelivered(b *bed) {
	m := b.configMap("lab", "w0")
	ctld, report := b.mount("lab", "slurm", "slurm")
	report("w0")
	version := b.edit("lab", "w1")
	b.eventually(patience, "NotDelivered", func() bool {
		list, err := b.kube.CoreV1().Events("lab").List(b.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(m.UID)})
		require.NoError(b, err)
		return len(list.Items) == 1 && list.Items[0].Reason == "NotDelivered"
	})
	assert.Equal(b, version+"-3", b.versionOf(ctld))
	report("w1")
}

// otherLeader: an edit that no leader has heard of is delivered by the next one.
func otherLeader(b *bed) {
	ctld, err := b.kube.CoreV1().Pods("hpc").Get(b.Context(), "slurm-slurmctld-0", metav1.GetOptions{})
	require.NoError(b, err)
	for _, r := range b.replicas {
		require.NoError(b, r.Stop(10*time.Second))
	}
	version := b.edit("hpc", "v22")
	for _, r := range b.replicas {
		require.NoError(b, r.Start())
		r.ready()
	}
	b.eventually(patience, "the annotation "+version, func() bool { return tried(b.versionOf(ctld), version) })
}

// configMapRights: the controller's account reads the ConfigMaps that the value names, and changes no pod elsewhere.
func configMapRights(b *bed) {
	config, err := clientcmd.BuildConfigFromFlags("", b.file("slurmlet-0.kubeconfig"))
	require.NoError(b, err)
	own, err := kubernetes.NewForConfig(config)
	require.NoError(b, err)
	list := func(namespace string, o metav1.ListOptions) error {
		_, err := own.CoreV1().ConfigMaps(namespace).List(b.Context(), o)
		return err
	}
	require.NoError(b, list("hpc", metav1.ListOptions{FieldSelector: "metadata.name=slurm"}))
	for namespace, o := range map[string]metav1.ListOptions{
		"hpc": {}, "": {}, home: {FieldSelector: "metadata.name=slurm"}, "lab": {FieldSelector: "metadata.name=second"},
	} {
		assert.True(b, apierrors.IsForbidden(list(namespace, o)), namespace)
	}
	_, err = own.CoreV1().Secrets("hpc").List(b.Context(), metav1.ListOptions{})
	assert.True(b, apierrors.IsForbidden(err))
	_, err = own.CoreV1().ConfigMaps("hpc").Update(b.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "slurm"}}, metav1.UpdateOptions{})
	assert.True(b, apierrors.IsForbidden(err))
	for _, subresource := range [][]string{nil, {"status"}} {
		_, err = own.CoreV1().Pods("hpc").Patch(b.Context(), "slurm-slurmctld-0", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}, subresource...)
		assert.True(b, apierrors.IsForbidden(err), subresource)
	}
}
