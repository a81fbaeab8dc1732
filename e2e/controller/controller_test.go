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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/internal/kit/role"
)

// TestController is one life of two replicas with real etcd and kube-apiserver.
func TestController(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.namespace("hpc")
	b.namespace("other")
	first := b.replica("SLURMLET_LOG_LEVEL=debug")
	first.ready()
	assert.Equal(b, 1, strings.Count(first.log(), "the certificate authority is written"), "the leader makes one authority")
	b.replica().ready()
	b.run([]story{
		{"names, as pods come and go", names},
		{"a cluster sees itself alone", isolation},
		{"machines that are gone", machines},
		{"pods that are no peers", faults},
		{"tokens that give no right", refusals},
		{"the certificate authority is mended", mended},
		{"kubectl slurm finds clusters, and names missing rights", kubectlRights},
		{"helm refuses a newer Slurm without leave, and keeps the claim of dumps", slurmUpgrade},
		{"a replica ends in order", farewell},
		{"the leader is killed", leaderKilled},
		{"the chart gives the rights that are used", rights},
		{"a replica is killed with its streams", comeBack},
		{"the API is away", outage},
	})
}

// story is a part of a bed's life.
type story struct {
	name string
	test func(*bed)
}

// run tells stories, until one fails: the next ones would fail for the same reason.
func (b *bed) run(stories []story) {
	t := b.T
	defer func() { b.T = t }()
	for _, s := range stories {
		if !t.Run(s.name, func(t *testing.T) {
			b.T = t
			s.test(b)
		}) {
			return
		}
	}
}

// rights come before the outage: an API server that has just started forbids everything for a moment.
func rights(b *bed) {
	for _, r := range b.replicas {
		assert.NotContains(b, r.log(), "forbidden")
	}
}

func names(b *bed) {
	ctld := b.pod(spec{"hpc", "slurm-slurmctld-0", "slurm", "slurmctld", "", "", "", []string{"10.1.0.1"}})
	a := b.agent(ctld)
	p := a.has("slurm-slurmctld-0", "10.1.0.1")
	assert.Equal(b, role.Slurmctld, p.Role)
	assert.Equal(b, string(ctld.UID), p.UID)

	b.node("m1")
	cpu := b.pod(spec{"hpc", "slurm-cpu-0", "slurm", "slurmd", "cpu", "", "m1", nil})
	a.has("slurm-cpu-0")
	for _, addresses := range [][]string{{"10.1.0.2"}, {"10.1.0.3", "fd00::3"}, {"fd00::4"}} {
		began := time.Now()
		b.address(cpu, addresses...)
		p = a.has("slurm-cpu-0", addresses...)
		assert.Less(b, time.Since(began), atOnce)
	}
	assert.Equal(b, []any{role.Slurmd, "cpu", "m1", false}, []any{p.Role, p.NodeSet, p.Machine, p.Ending})

	login := b.pod(spec{"hpc", "login-x7k2", "slurm", "login", "", "login", "", []string{"10.1.0.5"}})
	a.has("login", "10.1.0.5")
	b.delete(login, 0)
	assert.False(b, a.loses(login))

	b.delete(cpu, 600)
	b.eventually(patience, "slurm-cpu-0 ends", func() bool { p, _ := a.peer("slurm-cpu-0"); return p.Ending })
	b.delete(cpu, 0)
	assert.False(b, a.loses(cpu))
	again := b.pod(spec{"hpc", "slurm-cpu-0", "slurm", "slurmd", "cpu", "", "m1", []string{"10.1.0.6"}})
	assert.Equal(b, string(again.UID), a.has("slurm-cpu-0", "10.1.0.6").UID)

	_, err := b.kube.CoreV1().Pods("hpc").Patch(b.Context(), again.Name, types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`), metav1.PatchOptions{}, "status")
	require.NoError(b, err)
	assert.False(b, a.loses(again), "nothing of it runs, and its machine is there")
	assert.Equal(b, []string{"slurm-slurmctld-0"}, a.names())
}

func isolation(b *bed) {
	here := b.pod(spec{"hpc", "a-slurmctld-0", "a", "slurmctld", "", "", "", []string{"10.2.0.1"}})
	there := b.pod(spec{"other", "a-slurmctld-0", "a", "slurmctld", "", "", "", []string{"10.2.0.2"}})
	beside := b.pod(spec{"hpc", "b-slurmctld-0", "b", "slurmctld", "", "", "", []string{"10.2.0.3"}})
	for _, c := range []struct {
		pod     *corev1.Pod
		address string
	}{{here, "10.2.0.1"}, {there, "10.2.0.2"}, {beside, "10.2.0.3"}} {
		a := b.agent(c.pod)
		a.has(c.pod.Name, c.address)
		assert.Len(b, a.names(), 1, "one cluster in one namespace")
	}
	b.pod(spec{"hpc", "stranger", "", "slurmd", "", "", "", []string{"10.2.0.4"}})
}

func machines(b *bed) {
	a := b.agent(b.pod(spec{"hpc", "m-slurmctld-0", "m", "slurmctld", "", "", "", []string{"10.3.0.1"}}))
	for _, name := range []string{"m2", "m3"} {
		b.node(name)
	}
	deleted := b.pod(spec{"hpc", "m-cpu-2", "m", "slurmd", "cpu", "", "m2", []string{"10.3.0.2"}})
	tainted := b.pod(spec{"hpc", "m-cpu-3", "m", "slurmd", "cpu", "", "m3", []string{"10.3.0.3"}})
	a.has("m-cpu-2", "10.3.0.2")
	a.has("m-cpu-3", "10.3.0.3")

	require.NoError(b, b.kube.CoreV1().Nodes().Delete(b.Context(), "m2", metav1.DeleteOptions{}))
	assert.True(b, a.loses(deleted))
	b.taint("m3", corev1.Taint{Key: "node.kubernetes.io/out-of-service", Effect: corev1.TaintEffectNoExecute})
	assert.True(b, a.loses(tainted))

	b.taint("m3")
	a.has("m-cpu-3", "10.3.0.3")
	b.node("m2")
	a.has("m-cpu-2", "10.3.0.2")
}

// taint gives a machine these taints, and no others.
func (b *bed) taint(name string, taints ...corev1.Taint) {
	n, err := b.kube.CoreV1().Nodes().Get(b.Context(), name, metav1.GetOptions{})
	require.NoError(b, err)
	n.Spec.Taints = taints
	_, err = b.kube.CoreV1().Nodes().Update(b.Context(), n, metav1.UpdateOptions{})
	require.NoError(b, err)
}

func faults(b *bed) {
	a := b.agent(b.pod(spec{"hpc", "f-slurmctld-0", "f", "slurmctld", "", "", "", []string{"10.4.0.1"}}))
	first := b.pod(spec{"hpc", "f-cpu-a", "f", "slurmd", "cpu", "node1", "", []string{"10.4.0.2"}})
	a.has("node1", "10.4.0.2")
	b.eventually(patience, "the next pod is younger, in Kubernetes' seconds", func() bool { return time.Now().Unix() > first.CreationTimestamp.Unix() })
	second := b.pod(spec{"hpc", "f-cpu-b", "f", "slurmd", "cpu", "node1", "", []string{"10.4.0.3"}})
	b.event(second, "NameTaken", "The pod f-cpu-a has the name node1 in this cluster, so no agent is told this pod's address.")
	noRole := b.pod(spec{"hpc", "f-none", "f", "", "", "", "", []string{"10.4.0.4"}})
	b.event(noRole, "NoRole", "The pod has the label slurmlet.dev/cluster and no label slurmlet.dev/role, so no agent is told its name. The roles are slurmctld, slurmd, login, slurmdbd, slurmrestd.")
	other := b.pod(spec{"hpc", "f-master", "f", "master", "", "", "", []string{"10.4.0.5"}})
	b.event(other, "UnknownRole", `The label slurmlet.dev/role is "master", so no agent is told the pod's name. The roles are slurmctld, slurmd, login, slurmdbd, slurmrestd.`)

	for n := range 5 {
		b.address(second, fmt.Sprintf("10.4.1.%d", n+1))
	}
	last := b.pod(spec{"hpc", "f-cpu-c", "f", "slurmd", "cpu", "", "", []string{"10.4.0.6"}})
	a.has("f-cpu-c", "10.4.0.6") // everything else goes on
	assert.Equal(b, 1, b.events(second), "an event is not repeated")
	assert.Equal(b, string(first.UID), a.has("node1", "10.4.0.2").UID)

	b.delete(first, 0)
	assert.Equal(b, string(second.UID), a.has("node1", "10.4.1.5").UID)
	b.delete(last, 0)
	a.loses(last)
}

// event waits for the one of a pod.
func (b *bed) event(p *corev1.Pod, reason, note string) {
	b.Helper()
	b.eventually(patience, p.Name+" has an event", func() bool { return b.events(p) > 0 })
	list, err := b.kube.CoreV1().Events(p.Namespace).List(b.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(p.UID)})
	require.NoError(b, err)
	assert.Equal(b, reason, list.Items[0].Reason)
	assert.Equal(b, note, list.Items[0].Message)
	assert.Equal(b, corev1.EventTypeWarning, list.Items[0].Type)
}

func (b *bed) events(p *corev1.Pod) int {
	b.Helper()
	list, err := b.kube.CoreV1().Events(p.Namespace).List(b.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(p.UID)})
	require.NoError(b, err)
	return len(list.Items)
}
