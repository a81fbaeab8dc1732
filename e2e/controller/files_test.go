//go:build e2e

package controller

import (
	"fmt"
	"slices"
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

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestFiles has ConfigMaps streamed, with the rights that the chart gives for these.
func TestFiles(t *testing.T) {
	t.Parallel()
	b := &bed{T: t, whole: t, dir: t.TempDir()}
	b.startPlane()
	for _, namespace := range []string{home, "hpc", "lab"} {
		b.namespace(namespace)
	}
	b.install("--set", "configMaps={hpc/slurm,hpc/second,lab/slurm}")
	const named = "SLURMLET_CONFIG_MAPS=hpc/slurm,hpc/second,lab/slurm"
	b.replica(named, "SLURMLET_LOG_LEVEL=debug").ready()
	b.replica(named).ready()
	b.run([]story{
		{"an edit comes to slurmctld's agent alone", streamedEdit},
		{"what is not streamed has an event", notStreamed},
		{"a deleted ConfigMap is no edit", deletedConfigMap},
		{"another leader", otherLeader},
		{"the rights are for the named ConfigMaps alone", configMapRights},
		{"the chart gives the rights that are used", rights},
	})
}

// configMap makes a ConfigMap of the cluster slurm.
func (b *bed) configMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	b.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"slurmlet.dev/conf": "slurm"}}, Data: data}
	made, err := b.kube.CoreV1().ConfigMaps(namespace).Create(b.Context(), m, metav1.CreateOptions{})
	require.NoError(b, err)
	return made
}

// edit changes the ConfigMap slurm of a namespace by a merge patch.
func (b *bed) edit(namespace, patch string) {
	b.Helper()
	_, err := b.kube.CoreV1().ConfigMaps(namespace).Patch(b.Context(), "slurm", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(b, err)
}

// streamed waits until the agent has had a text of slurm.conf, and returns it with what came before.
func (a *agent) streamed(text string) wire.Files {
	a.b.Helper()
	var last wire.Files
	a.b.eventually(patience, fmt.Sprintf("the agent has %q", text), func() bool {
		if all := a.allStreamed(); len(all) > 0 {
			last = all[len(all)-1]
		}
		return last.Data["slurm.conf"] == text
	})
	return last
}

func (a *agent) allStreamed() []wire.Files {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.files)
}

func streamedEdit(b *bed) {
	ctld := b.agent(b.pod(spec{"hpc", "slurm-slurmctld-0", "slurm", "slurmctld", "", "", "", []string{"10.1.0.1"}}))
	others := []*agent{
		b.agent(b.pod(spec{"hpc", "slurm-cpu-0", "slurm", "slurmd", "cpu", "", "", []string{"10.1.0.2"}})),
		b.agent(b.pod(spec{"hpc", "login-0", "slurm", "login", "", "", "", []string{"10.1.0.3"}})),
		b.agent(b.pod(spec{"hpc", "x-slurmctld-0", "x", "slurmctld", "", "", "", []string{"10.1.0.4"}})),
		b.agent(b.pod(spec{"lab", "slurm-slurmctld-0", "slurm", "slurmctld", "", "", "", []string{"10.1.0.5"}})),
	}
	for _, a := range append(others, ctld) {
		a.follows()
	}
	b.configMap("hpc", "unnamed", map[string]string{"slurm.conf": "unnamed"})
	first := b.configMap("hpc", "slurm", map[string]string{"slurm.conf": "v0", "gres.conf": "g"})
	f := ctld.streamed("v0")
	assert.Equal(b, []any{"slurm", first.ResourceVersion, "g"}, []any{f.Name, fmt.Sprint(f.ResourceVersion), f.Data["gres.conf"]})
	var slowest time.Duration
	for n := range 20 {
		text := fmt.Sprintf("v%d", n+1)
		began := time.Now()
		b.edit("hpc", fmt.Sprintf(`{"data":{"slurm.conf":%q}}`, text))
		ctld.streamed(text)
		slowest = max(slowest, time.Since(began))
	}
	b.Logf("slurmctld's agent has an edit after at most %v", slowest.Round(time.Millisecond))
	assert.Less(b, slowest, 10*time.Second)
	f = ctld.streamed("v20")
	assert.NotEmpty(b, f.Former)
	had := len(ctld.allStreamed())
	b.edit("hpc", `{"metadata":{"annotations":{"a":"b"}}}`)
	b.edit("hpc", `{"data":{"slurm.conf":"v21"}}`)
	ctld.streamed("v21")
	assert.Len(b, ctld.allStreamed(), had+1, "an annotation is no edit")
	big := strings.Repeat("#\n", 500_000)
	b.edit("hpc", fmt.Sprintf(`{"data":{"slurm.conf":%q}}`, big))
	ctld.streamed(big)
	for _, a := range others {
		assert.Empty(b, a.allStreamed())
	}
	b.edit("hpc", `{"data":{"slurm.conf":"v22"}}`)
}

// eventsOf are the reasons and texts of an object's events.
func (b *bed) eventsOf(m *corev1.ConfigMap) map[string]string {
	list, err := b.kube.CoreV1().Events(m.Namespace).List(b.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=ConfigMap,involvedObject.uid=" + string(m.UID)})
	require.NoError(b, err)
	found := map[string]string{}
	for _, e := range list.Items {
		assert.Equal(b, corev1.EventTypeWarning, e.Type)
		found[e.Reason] = e.Message
	}
	return found
}

func notStreamed(b *bed) {
	ctld := b.agent(b.pod(spec{"lab", "slurm-slurmctld-1", "slurm", "slurmctld", "", "", "", []string{"10.1.1.1"}}))
	m := b.configMap("lab", "slurm", map[string]string{"slurm.conf": "w0"})
	ctld.streamed("w0")
	had := len(ctld.allStreamed())
	for _, one := range []struct{ patch, reason, says string }{
		{`{"data":{"slurm.conf":null,"gres.conf":""}}`, "NoSlurmConf", "The ConfigMap has the label slurmlet.dev/conf and no slurm.conf, so it is not streamed."},
		{`{"data":{"slurm.conf":"w1"},"binaryData":{"x":"AAAA"}}`, "BinaryData", "The ConfigMap has binaryData"},
		{`{"binaryData":null,"data":{"slurm.key":"never told"}}`, "Key", "The ConfigMap has slurm.key, which is a key"},
	} {
		b.edit("lab", one.patch)
		b.eventually(patience, one.reason, func() bool { return strings.HasPrefix(b.eventsOf(m)[one.reason], one.says) })
	}
	assert.Len(b, ctld.allStreamed(), had, "and nothing else changes")
	b.edit("lab", `{"data":{"slurm.conf":"w2","slurm.key":null}}`)
	ctld.streamed("w2")
	b.edit("lab", `{"immutable":true}`)
	b.eventually(patience, "Immutable", func() bool { return b.eventsOf(m)["Immutable"] != "" })

	second := b.configMap("hpc", "second", map[string]string{"slurm.conf": "second"})
	b.eventually(patience, "SecondConfigMap", func() bool {
		return b.eventsOf(second)["SecondConfigMap"] == "The older ConfigMap slurm is the configuration of the cluster too, so this one is not streamed."
	})
	for _, r := range b.replicas {
		assert.NotContains(b, r.log(), "never told", "no log has a ConfigMap's text")
	}
	require.NoError(b, b.kube.CoreV1().ConfigMaps("hpc").Delete(b.Context(), "second", metav1.DeleteOptions{}))
	require.NoError(b, b.kube.CoreV1().ConfigMaps("lab").Delete(b.Context(), "slurm", metav1.DeleteOptions{}))
}

func deletedConfigMap(b *bed) {
	ctld := b.agent(b.pod(spec{"lab", "slurm-slurmctld-2", "slurm", "slurmctld", "", "", "", []string{"10.1.1.2"}}))
	b.configMap("lab", "slurm", map[string]string{"slurm.conf": "x0"})
	ctld.streamed("x0")
	had := ctld.allStreamed()
	streams := func(n float64) {
		b.Helper()
		for _, r := range b.replicas {
			b.eventually(patience, "the replica knows", func() bool { return r.metric("slurmlet_controller_config_maps") == n })
		}
	}
	streams(2)
	b.edit("lab", `{"metadata":{"labels":{"slurmlet.dev/conf":null}}}`)
	streams(1)
	b.edit("lab", `{"data":{"slurm.conf":"x1"}}`)
	b.edit("lab", `{"metadata":{"labels":{"slurmlet.dev/conf":"slurm"}}}`)
	now := ctld.streamed("x1")
	assert.Greater(b, now.ResourceVersion, had[len(had)-1].ResourceVersion)
	require.NoError(b, b.kube.CoreV1().ConfigMaps("lab").Delete(b.Context(), "slurm", metav1.DeleteOptions{}))
	streams(1)
	assert.Len(b, ctld.allStreamed(), len(had)+1)
	b.configMap("lab", "slurm", map[string]string{"slurm.conf": "x2"})
	assert.Greater(b, ctld.streamed("x2").ResourceVersion, now.ResourceVersion)
}

// otherLeader: a replica that has just started tells the same version, and then the next.
func otherLeader(b *bed) {
	ctld := b.agent(b.pod(spec{"hpc", "slurm-slurmctld-3", "slurm", "slurmctld", "", "", "", []string{"10.1.0.9"}}))
	before := ctld.streamed("v22")
	require.NoError(b, b.replicas[0].Stop(5*time.Second))
	require.NoError(b, b.replicas[0].Start())
	b.replicas[0].ready()
	require.NoError(b, b.replicas[1].Stop(5*time.Second))
	b.eventually(patience, "the agent is told again", func() bool { return ctld.client.Status().Connected })
	require.NoError(b, b.replicas[1].Start())
	b.replicas[1].ready()
	for _, f := range ctld.allStreamed() {
		assert.Equal(b, before.ResourceVersion, f.ResourceVersion)
	}
	b.edit("hpc", `{"data":{"slurm.conf":"v23"}}`)
	assert.Greater(b, ctld.streamed("v23").ResourceVersion, before.ResourceVersion)
}

// configMapRights: the controller's account reads the ConfigMaps that the value names.
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
		"hpc": {}, "": {LabelSelector: "slurmlet.dev/conf"}, home: {FieldSelector: "metadata.name=slurm"}, "lab": {FieldSelector: "metadata.name=second"},
	} {
		assert.True(b, apierrors.IsForbidden(list(namespace, o)), namespace)
	}
	assert.True(b, apierrors.IsForbidden(list("hpc", metav1.ListOptions{FieldSelector: "metadata.name=unnamed"})))
	_, err = own.CoreV1().Secrets("hpc").List(b.Context(), metav1.ListOptions{})
	assert.True(b, apierrors.IsForbidden(err))
	_, err = own.CoreV1().ConfigMaps("hpc").Update(b.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "slurm"}}, metav1.UpdateOptions{})
	assert.True(b, apierrors.IsForbidden(err))
}
