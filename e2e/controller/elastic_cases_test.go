//go:build e2e

package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

func elasticPods(b *bed) {
	b.node("m1")
	e := b.elastic("e")
	t := e.template(func(t *corev1.PodTemplate) { t.Template.Annotations = map[string]string{"a": "b"} })
	e.wanted["e-4"] = false
	began := time.Now()
	e.want("e-[0-3]")
	all := e.has("e-[0-3]")
	assert.Less(b, time.Since(began), atOnce)
	p := all["e-2"]
	assert.Equal(b, map[string]string{"slurmlet.dev/cluster": "e", "slurmlet.dev/role": "slurmd", "slurmlet.dev/node-set": "gpu", "slurmlet.dev/elastic": "gpu"}, p.Labels)
	assert.Equal(b, map[string]string{"a": "b"}, p.Annotations)
	assert.Equal(b, []metav1.OwnerReference{{APIVersion: "v1", Kind: "PodTemplate", Name: t.Name, UID: t.UID, Controller: new(true)}}, p.OwnerReferences)
	assert.Equal(b, "e-2", p.Spec.Hostname)
	b.address(&p, "10.20.0.2")
	e.agent.has("e-2", "10.20.0.2")

	for _, name := range []string{"e-0", "e-1"} {
		e.bind(name)
	}
	before := e.pods()
	e.want("e-[2-3]")
	e.ends("e-0")
	e.ends("e-1")
	e.want("e-[0,2-3]") // a namesake is on its way
	e.vanish("e-1")
	e.want("e-[0,2-4]")
	e.has("e-[2-4]")
	assert.Equal(b, before["e-0"].UID, e.pods()["e-0"].UID)
	e.vanish("e-0")
	after := e.has("e-[0,2-4]")
	assert.NotEqual(b, before["e-0"].UID, after["e-0"].UID)
	assert.Equal(b, before["e-3"].UID, after["e-3"].UID)
	e.want("")
	e.has("")
	e.fails()
	leader := b.leader()
	assert.InDelta(b, 6, leader.metric("slurmlet_controller_elastic_pods_made_total"), 0.1)
	const deleted = "slurmlet_controller_elastic_pods_deleted_total"
	b.eventually(atOnce, "the deletions are counted", func() bool { return leader.metric(deleted) > 5.9 }) // once the API has answered
	assert.InDelta(b, 6, leader.metric(deleted), 0.1)
}

func elasticLost(b *bed) {
	e := b.elastic("l")
	e.template(nil)
	e.want("l-[0-2]")
	before := e.has("l-[0-2]")
	e.bind("l-0")
	e.status("l-0", `{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory."}`)
	e.vanish("l-1")
	e.eventually(patience, "the lost pods are made again", func() bool {
		now := e.pods()
		return now["l-0"].UID != "" && now["l-0"].UID != before["l-0"].UID && now["l-1"].UID != "" && now["l-1"].UID != before["l-1"].UID
	})
	assert.Equal(b, before["l-2"].UID, e.has("l-[0-2]")["l-2"].UID)

	// A pod that dies at once again and again is made less and less often, and the agent is told why.
	var births []time.Time
	for range 3 {
		uid := e.pods()["l-1"].UID
		e.bind("l-1")
		e.status("l-1", `{"phase":"Failed","reason":"UnexpectedAdmissionError","message":"no device"}`)
		e.eventually(patience, "l-1 is made again", func() bool { now := e.pods()["l-1"].UID; return now != "" && now != uid })
		births = append(births, time.Now())
	}
	assert.Greater(b, births[2].Sub(births[1]), 3*time.Second)
	e.want("")
	e.has("")
}

func elasticTroubles(b *bed) {
	e := b.elastic("w")
	e.template(nil)
	e.want("w-[0-6]")
	e.has("w-[0-6]")
	for _, n := range []int{0, 1} {
		e.status(fmt.Sprintf("w-%d", n), `{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes are available"}]}`)
	}
	e.status("w-2", `{"containerStatuses":[{"name":"slurmd","image":"","imageID":"","restartCount":0,"ready":false,"state":{"waiting":{"reason":"ErrImagePull","message":"no such image"}}}]}`)
	e.status("w-3", `{"initContainerStatuses":[{"name":"agent","image":"","imageID":"","restartCount":3,"ready":false,"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 40s pod=w-3"}},"lastState":{"terminated":{"exitCode":78}}}]}`)
	e.status("w-4", `{"containerStatuses":[{"name":"slurmd","image":"","imageID":"","restartCount":0,"ready":false,"state":{"waiting":{"reason":"ContainerCreating"}}}]}`)
	e.status("w-5", `{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`)
	e.fails(
		"w-2 ErrImagePull: container slurmd: no such image",
		"w-3 CrashLoopBackOff: container agent: it exits with status 78",
		"w-[0-1] Unschedulable: 0/3 nodes are available",
	)
	assert.InDelta(b, 2, b.leader().metric(`slurmlet_controller_elastic_pods_failing{reason="Unschedulable"}`), 0.1)
	e.status("w-0", `{"conditions":[{"type":"PodScheduled","status":"True"}]}`)
	e.want("w-[0-1]")
	e.has("w-[0-1]")
	e.fails("w-1 Unschedulable: 0/3 nodes are available")
	e.want("")
	e.has("")
	e.fails()
}

func elasticQuota(b *bed) {
	e := b.elastic("q")
	t := e.template(nil)
	list, err := b.kube.CoreV1().Pods("hpc").List(b.Context(), metav1.ListOptions{})
	require.NoError(b, err)
	// kube-controller-manager would count, and so does the test.
	quotas := b.kube.CoreV1().ResourceQuotas("hpc")
	few, err := quotas.Create(b.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}}, metav1.CreateOptions{})
	require.NoError(b, err)
	allow := func(more int) {
		pods := func(n int) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(len(list.Items)+n), resource.DecimalSI)}
		}
		few.Spec.Hard = pods(more)
		few, err = quotas.Update(b.Context(), few, metav1.UpdateOptions{})
		require.NoError(b, err)
		few.Status = corev1.ResourceQuotaStatus{Hard: pods(more), Used: pods(0)}
		few, err = quotas.UpdateStatus(b.Context(), few, metav1.UpdateOptions{})
		require.NoError(b, err)
	}
	try := func() error {
		_, err := b.kube.CoreV1().Pods("hpc").Create(b.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "try-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}, AutomountServiceAccountToken: new(false)},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	allow(0)
	b.eventually(patience, "the API server enforces the quota", func() bool { return apierrors.IsForbidden(try()) })
	allow(2)
	b.eventually(patience, "the API server knows the next quota", func() bool { return try() == nil })
	before := b.leader().metric("slurmlet_controller_elastic_pods_refused_total")
	e.want("q-[0-29]")
	b.eventually(patience, "two pods are made", func() bool { return len(e.pods()) == 2 })
	var last []wire.Failure
	b.eventually(patience, "the agent is told of the quota", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		last = e.failing
		n := 0
		for _, f := range last {
			l, err := hostlist.Parse(f.Nodes)
			require.NoError(b, err)
			n += l.Len()
		}
		return n == 28
	})
	for _, f := range last {
		assert.Equal(b, "FailedCreate", f.Reason)
		assert.Contains(b, f.Note, "exceeded quota: few")
	}
	b.objectEvent(string(t.UID), "FailedCreate", "exceeded quota: few")
	require.NoError(b, quotas.Delete(b.Context(), "few", metav1.DeleteOptions{}))
	e.has("q-[0-29]")
	e.fails()
	b.Logf("the quota refused %v requests", b.leader().metric("slurmlet_controller_elastic_pods_refused_total")-before)
	e.want("")
	e.has("")
}

// objectEvent waits for an event about an object that says that.
func (b *bed) objectEvent(uid, reason, note string) {
	b.Helper()
	b.eventually(patience, "an event "+reason+": "+note, func() bool {
		list, err := b.kube.CoreV1().Events("hpc").List(b.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + uid})
		require.NoError(b, err)
		return slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Reason == reason && strings.Contains(e.Message, note) })
	})
}

func elasticTemplates(b *bed) {
	e := b.elastic("t")
	e.want("t-[0-1]")
	const none = "the namespace hpc has no PodTemplate with the labels slurmlet.dev/cluster=t and slurmlet.dev/elastic=gpu"
	e.fails("t-[0-1] NoTemplate: " + none)
	ctld, err := b.kube.CoreV1().Pods("hpc").Get(b.Context(), "t-slurmctld-0", metav1.GetOptions{})
	require.NoError(b, err)
	b.objectEvent(string(ctld.UID), "NoTemplate", none)
	bad := e.template(func(t *corev1.PodTemplate) {
		t.Template.Spec.Containers[0].Resources.Limits = nil
		t.Template.Spec.HostNetwork = true
	})
	const faults = "the PodTemplate t-gpu cannot be used: spec.hostNetwork is true, and the pod would have its machine's name and address; " +
		"the container slurmd has no limit of cpu, which is the node's size; the container slurmd has no limit of memory, which is the node's size"
	e.fails("t-[0-1] BadTemplate: " + faults)
	b.objectEvent(string(bad.UID), "BadTemplate", faults)
	assert.Empty(b, e.pods())

	e.template(nil)
	before := e.has("t-[0-1]")
	e.fails()
	e.template(func(t *corev1.PodTemplate) { t.Template.Spec.Containers[0].Image = "slurm:2" })
	e.want("t-[0-2]")
	after := e.has("t-[0-2]")
	assert.Equal(b, before["t-0"].UID, after["t-0"].UID, "a pod that runs stays")
	assert.Equal(b, "slurm:1", after["t-1"].Spec.Containers[0].Image)
	require.NoError(b, b.kube.CoreV1().PodTemplates("hpc").Delete(b.Context(), "t-gpu", metav1.DeleteOptions{}))
	e.want("t-[0-3]")
	e.fails("t-3 NoTemplate: " + none)
	assert.Len(b, e.pods(), 3, "pods stay without their template")
	e.want("")
	e.has("")
}

// elasticNames: a pod that is no node's keeps its name, and its life.
func elasticNames(b *bed) {
	e := b.elastic("n")
	e.template(nil)
	static := b.pod(spec{"hpc", "n-0", "n", "slurmd", "cpu", "", "", nil})
	stranger := b.pod(spec{"hpc", "n-1", "", "", "", "", "", nil})
	e.want("n-[0-2]")
	e.has("n-2")
	e.fails(
		"n-0 FailedCreate: a pod has the node's name, and is no pod of the elastic set",
		"n-1 FailedCreate: a pod has the node's name, and is no pod of a cluster",
	)
	e.want("")
	e.has("")
	for _, p := range []*corev1.Pod{static, stranger} {
		assert.Equal(b, p.UID, b.read(p).UID)
	}
}

// made counts the pods that replicas say that they have made.
func (e *elastic) made() (n int) {
	for _, r := range e.replicas {
		for line := range strings.Lines(r.log()) {
			if strings.Contains(line, `"a pod is made, because Slurm wants the node"`) && strings.Contains(line, `"pod":"`+e.cluster+"-") {
				n++
			}
		}
	}
	return n
}

func elasticKilled(b *bed) {
	e := b.elastic("k")
	e.template(nil)
	leader := b.leader()
	e.want("k-[0-79]")
	b.eventually(patience, "some pods are made", func() bool { return len(e.pods()) >= 20 })
	require.NoError(b, leader.Kill())
	before := e.pods()
	began := time.Now()
	assert.Less(b, len(before), 80)
	next := b.leader()
	b.Logf("%s leads %v after the leader was killed with %d of 80 pods made", next.Name, since(began), len(before))
	after := e.has("k-[0-79]")
	b.Logf("all pods are there %v after", since(began))
	for name, p := range before {
		assert.Equal(b, p.UID, after[name].UID)
	}
	assert.LessOrEqual(b, e.made(), 80, "no pod is made twice; the last requests of the killed leader had no answer, ten and more beside a load")

	// Nobody leads while Slurm ends nodes, and the next leader is told by the agent.
	require.NoError(b, leader.Start())
	leader.ready()
	require.NoError(b, next.Kill())
	e.want("k-[0-9]")
	e.has("k-[0-9]")
	require.NoError(b, next.Start())
	next.ready()
	e.want("")
	e.has("")
}

// elasticStopped: a leader that stands still and wakes has another one beside it.
func elasticStopped(b *bed) {
	e := b.elastic("p")
	e.template(nil)
	e.want("p-[0-9]")
	e.has("p-[0-9]")
	leader := b.leader()
	others := slices.DeleteFunc(slices.Clone(b.replicas), func(r *replica) bool { return r == leader })
	all := b.replicas
	b.replicas = others // a Service leads nobody to one that does not answer
	require.NoError(b, leader.Signal(unix.SIGSTOP))
	successor := b.leader()
	led := strings.Count(successor.log(), "leads no more")
	e.want("p-[5-14]")
	before := e.has("p-[5-14]")
	require.NoError(b, leader.Signal(unix.SIGCONT))
	b.eventually(patience, "the former leader leads no more", func() bool { return leader.metric("slurmlet_controller_leader") == 0 })
	b.replicas = all
	e.want("p-[5-15]")
	after := e.has("p-[5-15]")
	for name, p := range before {
		assert.Equal(b, p.UID, after[name].UID)
	}
	e.want("")
	e.has("")
	assert.Equal(b, led, strings.Count(successor.log(), "leads no more"), "a leader that stood still does not give its successor's Lease back")
}
