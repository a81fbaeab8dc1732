//go:build e2e

package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// TestElastic is what the controller does with the nodes that Slurm starts and ends. The test is slurmctld's
// agent, the scheduler and the kubelet. The quota and the names are the API server's own.
func TestElastic(t *testing.T) {
	t.Parallel()
	b := &bed{T: t, whole: t, dir: t.TempDir()}
	b.startPlane()
	b.namespace(home)
	b.namespace("hpc") // its Role is one of the rights
	b.install("--set", "elastic.enabled=true", "--set", "elastic.namespaces={hpc}", "--set", "rolling.enabled=false", "--set", "scaleIn.enabled=false")
	environ := []string{"SLURMLET_ELASTIC=hpc", "SLURMLET_ELASTIC_QPS=20", "SLURMLET_ELASTIC_BURST=10", "SLURMLET_ROLL=false", "SLURMLET_SCALE_IN=false", "SLURMLET_LOG_LEVEL=debug"}
	b.replica(environ...).ready()
	b.replica(environ...).ready()
	b.run([]story{
		{"pods come and go as Slurm wants", elasticPods},
		{"pods that are lost come again", elasticLost},
		{"why pods do not start", elasticTroubles},
		{"a quota refuses", elasticQuota},
		{"templates that are missing, bad, and edited", elasticTemplates},
		{"a name that another pod has", elasticNames},
		{"the leader is killed while it makes pods", elasticKilled},
		{"the leader stands still", elasticStopped},
		{"the chart gives the rights that are used", elasticRights},
	})
}

// elasticRights: a quota forbids, too.
func elasticRights(b *bed) {
	for _, r := range b.replicas {
		assert.NotContains(b, strings.ReplaceAll(r.log(), "forbidden: exceeded quota", ""), "forbidden")
	}
}

// elastic is a cluster with an elastic set.
type elastic struct {
	*bed
	cluster string
	agent   *agent
	report  *peers.Reporter

	mu      sync.Mutex
	wanted  map[string]bool
	failing []wire.Failure
	answers int
}

func (b *bed) elastic(cluster string) *elastic {
	b.Helper()
	e := &elastic{bed: b, cluster: cluster, wanted: map[string]bool{}}
	e.agent = b.agent(b.pod(spec{"hpc", cluster + "-slurmctld-0", cluster, "slurmctld", "", "", "", []string{"10.20.0.1"}}))
	e.report = e.agent.reporter(b, func(f wire.Failing) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.failing = f.Pods
		e.answers++
	})
	return e
}

// template makes or changes the PodTemplate of the set gpu.
func (e *elastic) template(change func(*corev1.PodTemplate)) *corev1.PodTemplate {
	e.Helper()
	t := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: e.cluster + "-gpu", Labels: map[string]string{"slurmlet.dev/cluster": e.cluster, "slurmlet.dev/elastic": "gpu"}},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "slurmd", Image: "slurm:1", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
			}}}},
		}},
	}
	if change != nil {
		change(t)
	}
	all := e.kube.CoreV1().PodTemplates("hpc")
	if _, err := all.Get(e.Context(), t.Name, metav1.GetOptions{}); err == nil {
		made, err := all.Update(e.Context(), t, metav1.UpdateOptions{})
		require.NoError(e, err)
		return made
	}
	made, err := all.Create(e.Context(), t, metav1.CreateOptions{})
	require.NoError(e, err)
	return made
}

// want has Slurm want these nodes, and not want others that it had before.
func (e *elastic) want(nodes string) {
	e.Helper()
	names, err := hostlist.Parse(nodes)
	require.NoError(e, err)
	for name := range e.wanted {
		e.wanted[name] = false
	}
	for name := range names.All() {
		e.wanted[name] = true
	}
	e.tell()
}

func (e *elastic) tell() {
	var all []wire.NodeReport
	for name, wanted := range e.wanted {
		all = append(all, wire.NodeReport{Name: name, State: wire.Absent, Elastic: "gpu", Wanted: wanted})
	}
	e.report.Set(all, time.Now())
}

// pods are the set's, by name.
func (e *elastic) pods() map[string]corev1.Pod {
	list, err := e.kube.CoreV1().Pods("hpc").List(e.Context(), metav1.ListOptions{LabelSelector: "slurmlet.dev/elastic=gpu,slurmlet.dev/cluster=" + e.cluster})
	require.NoError(e, err)
	all := map[string]corev1.Pod{}
	for _, p := range list.Items {
		all[p.Name] = p
	}
	return all
}

// has waits until the set has just these pods, but for some that end, and returns these.
func (e *elastic) has(nodes string) map[string]corev1.Pod {
	e.Helper()
	names, err := hostlist.Parse(nodes)
	require.NoError(e, err)
	want := slices.Sorted(names.All())
	var all map[string]corev1.Pod
	e.eventually(patience, "the pods are "+nodes, func() bool {
		all = e.pods()
		maps.DeleteFunc(all, func(_ string, p corev1.Pod) bool { return p.DeletionTimestamp != nil })
		return slices.Equal(slices.Sorted(maps.Keys(all)), want)
	})
	return all
}

// fails waits until the agent is told just that, as "nodes reason: note".
func (e *elastic) fails(want ...string) {
	e.Helper()
	var have []string
	began := time.Now()
	defer func() {
		assert.Equal(e, want, have)
		e.Logf("the agent is told %q after %v", want, since(began))
	}()
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		e.mu.Lock()
		last := e.failing
		e.mu.Unlock()
		have = nil
		for _, f := range last {
			have = append(have, fmt.Sprintf("%s %s: %s", f.Nodes, f.Reason, f.Note))
		}
		if slices.Equal(have, want) {
			break
		}
	}
}

// bind puts a pod on a machine: a kubelet has to end it from now on.
func (e *elastic) bind(name string) {
	e.Helper()
	err := e.kube.CoreV1().Pods("hpc").Bind(e.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "m1"}}, metav1.CreateOptions{})
	require.NoError(e, err)
}

// status patches a pod's, as a kubelet or the scheduler would.
func (e *elastic) status(name, patch string) {
	e.Helper()
	_, err := e.kube.CoreV1().Pods("hpc").Patch(e.Context(), name, types.StrategicMergePatchType, []byte(`{"status":`+patch+`}`), metav1.PatchOptions{}, "status")
	require.NoError(e, err)
}

func (e *elastic) ends(name string) {
	e.Helper()
	e.eventually(patience, name+" ends", func() bool {
		p, there := e.pods()[name]
		return there && p.DeletionTimestamp != nil
	})
}

// vanish is a kubelet's last word, or somebody's who forces it.
func (e *elastic) vanish(name string) {
	e.Helper()
	p := e.pods()[name]
	e.delete(&p, 0)
}
