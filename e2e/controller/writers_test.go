//go:build e2e

package controller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestWriters is what the leader writes, and what agents are told of their machines. The chart has all of
// that switched on.
func TestWriters(t *testing.T) {
	t.Parallel()
	b := newBed(t, "--set", "machines.cordon=cordon,machines.cordonNamespaces={hpc}", "--set", "scaleIn.safeToEvict=true")
	b.namespace("hpc")
	environ := []string{
		"SLURMLET_CORDON=cordon", "SLURMLET_CORDON_NAMESPACES=hpc", "SLURMLET_SAFE_TO_EVICT=true", "SLURMLET_LOG_LEVEL=debug",
		"SLURMLET_MACHINE_LABELS=topology.kubernetes.io/*", "SLURMLET_MACHINE_FEATURES=zone-{topology.kubernetes.io/zone}",
		"SLURMLET_MACHINE_TOPOLOGY=default:{rack}", "SLURMLET_MACHINE_WEIGHT={type|big=90|*=10}",
	}
	b.replica(environ...).ready()
	b.replica(environ...).ready()
	b.run([]story{
		{"a machine as its agents are told of it", toldMachines},
		{"marks of busy and idle pods", marks},
		{"a drain of Slurm's marks the machine", cordoned},
		{"a roll of a StatefulSet", statefulSet},
		{"a roll of a DaemonSet", daemonSet},
		{"sets that cannot be rolled", badRolls},
		{"the chart gives the rights that are used", rights},
	})
}

// noWriters are the variables of a replica that writes no more than every replica must.
var noWriters = []string{"SLURMLET_SCALE_IN=false", "SLURMLET_ROLL=false"}

// TestNoWriters runs with everything switched off, and without the rights. Then the API is cut off, which takes
// longer than a minute of waiting.
func TestNoWriters(t *testing.T) {
	t.Parallel()
	b := newBed(t, "--set", "rolling.enabled=false", "--set", "scaleIn.enabled=false")
	b.namespace("hpc")
	b.run([]story{
		{"nothing is written", nothingWritten},
		{"a replica is cut off from the API", cutOff},
		{"the chart gives the rights that are used", rights},
	})
}

func nothingWritten(b *bed) {
	r := b.replica(noWriters...)
	r.ready()
	b.node("m1")
	a := b.agent(b.pod(spec{"hpc", "n-slurmctld-0", "n", "slurmctld", "", "", "", []string{"10.9.0.1"}}))
	node := b.pod(spec{"hpc", "n-cpu-0", "n", "slurmd", "cpu", "", "m1", []string{"10.9.0.2"}})
	a.has("n-cpu-0", "10.9.0.2")
	a.reports(b, wire.NodeReport{Name: "n-cpu-0", State: wire.Idle, Drain: "bad DIMM"})
	b.eventually(patience, "the report comes", func() bool { return r.metric("slurmlet_controller_reports_total") == 1 })
	assert.Empty(b, b.read(node).Status.Conditions)
	assert.NotContains(b, r.log(), "forbidden")
}

// reports has slurmctld's agent tell of its nodes until the test's end, from now on through the returned function.
func (a *agent) reports(b *bed, nodes ...wire.NodeReport) func(...wire.NodeReport) {
	reporter := a.reporter(b, nil)
	set := func(nodes ...wire.NodeReport) { reporter.Set(nodes, time.Now()) }
	set(nodes...)
	return set
}

// reporter tells until the test's end, and takes what the controller answers.
func (a *agent) reporter(b *bed, failing func(wire.Failing)) *peers.Reporter {
	reporter := peers.NewReporter()
	reporter.Follow(a.client)
	reporter.Failing = failing
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { reporter.Run(ctx) })
	b.Cleanup(func() {
		stop()
		running.Wait()
	})
	return reporter
}

func (b *bed) read(p *corev1.Pod) *corev1.Pod {
	now, err := b.kube.CoreV1().Pods(p.Namespace).Get(b.Context(), p.Name, metav1.GetOptions{})
	require.NoError(b, err)
	return now
}

func (b *bed) readNode(name string) *corev1.Node {
	n, err := b.kube.CoreV1().Nodes().Get(b.Context(), name, metav1.GetOptions{})
	require.NoError(b, err)
	return n
}

// patchNode changes a Kubernetes node by a merge patch.
func (b *bed) patchNode(name, patch string, subresources ...string) {
	b.Helper()
	_, err := b.kube.CoreV1().Nodes().Patch(b.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	require.NoError(b, err)
}

func toldMachines(b *bed) {
	b.node("m1")
	b.patchNode("m1", `{"metadata":{"labels":{"topology.kubernetes.io/zone":"eu-1a","rack":"r7","type":"big"}}}`)
	p := b.pod(spec{"hpc", "a-cpu-0", "a", "slurmd", "cpu", "", "m1", []string{"10.1.0.2"}})
	a := b.agent(p)
	told := func(what string, is func(wire.Self) bool) {
		b.Helper()
		began := time.Now()
		b.eventually(patience, what, func() bool { s, there := a.told(); return there && is(s) })
		if what != "the machine" {
			assert.Less(b, time.Since(began), atOnce, what)
		}
	}
	told("the machine", func(s wire.Self) bool { return s.Machine == "m1" && len(s.Features) == 1 })
	s, _ := a.told()
	assert.Equal(b, wire.Self{
		Machine: "m1", Labels: map[string]string{"topology.kubernetes.io/zone": "eu-1a"}, Features: []string{"zone-eu-1a"}, Topology: "default:r7", Weight: "90",
	}, s)
	b.patchNode("m1", `{"metadata":{"labels":{"rack":"r8","type":"small"}}}`)
	told("another rack", func(s wire.Self) bool { return s.Topology == "default:r8" && s.Weight == "10" })
	drain := func(want string) { b.Helper(); told(want, func(s wire.Self) bool { return s.Drain == want }) }
	b.patchNode("m1", `{"spec":{"unschedulable":true}}`)
	drain("machine m1 is cordoned")
	b.patchNode("m1", `{"spec":{"unschedulable":false}}`)
	drain("")
	b.taint("m1", corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Value: "1", Effect: corev1.TaintEffectNoSchedule})
	drain("machine m1 has the taint ToBeDeletedByClusterAutoscaler=1:NoSchedule")
	b.taint("m1")
	drain("")
	b.patchNode("m1", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, "status")
	drain("machine m1 is not ready")
	b.patchNode("m1", `{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`, "status") // silence says nothing of slurmd
	drain("")
	b.patchNode("m1", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "status")
	drain("")

	for _, grace := range []int64{600, 20} { // an eviction may cut what a deletion has granted
		b.delete(p, grace)
		want := b.read(p).DeletionTimestamp
		told("the deadline", func(s wire.Self) bool { return s.Deadline.Equal(want.Time) && s.GraceSeconds == grace })
		assert.InDelta(b, grace, time.Until(want.Time).Seconds(), 5)
	}
}

// owned makes a pod that a workload owns, on a machine, as a kubelet and a controller would.
func (b *bed) owned(s spec, kind, name string, uid types.UID, revision string) *corev1.Pod {
	b.Helper()
	p := b.pod(s)
	patch := fmt.Sprintf(`{"metadata":{"labels":{"controller-revision-hash":%q},"ownerReferences":[{"apiVersion":"apps/v1","kind":%q,"name":%q,"uid":%q,"controller":true}]}}`, revision, kind, name, uid)
	_, err := b.kube.CoreV1().Pods(s.namespace).Patch(b.Context(), s.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(b, err)
	_, err = b.kube.CoreV1().Pods(s.namespace).Patch(b.Context(), s.name, types.StrategicMergePatchType, []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status")
	require.NoError(b, err)
	return p
}

// condition is a pod's, with its reason.
func condition(p *corev1.Pod, kind corev1.PodConditionType) string {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

// idleSince is since when slurmlet.dev/Idle says what it says, in whole seconds.
func idleSince(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == "slurmlet.dev/Idle" {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

func marks(b *bed) {
	a := b.agent(b.pod(spec{"hpc", "s-slurmctld-0", "s", "slurmctld", "", "", "", []string{"10.2.0.1"}}))
	b.node("m2")
	var all []*corev1.Pod
	for n, kind := range []string{"ReplicaSet", "ReplicaSet", "StatefulSet", "ReplicaSet"} {
		name := fmt.Sprintf("s-cpu-%d", n)
		all = append(all, b.owned(spec{"hpc", name, "s", "slurmd", "cpu", "", "m2", []string{"10.2.0." + fmt.Sprint(n+2)}}, kind, "s-cpu", types.UID("s-"+kind), ""))
		a.has(name, "10.2.0."+fmt.Sprint(n+2))
	}
	own := `{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"7"}}}`
	_, err := b.kube.CoreV1().Pods("hpc").Patch(b.Context(), all[3].Name, types.MergePatchType, []byte(own), metav1.PatchOptions{})
	require.NoError(b, err)
	// marked waits for the cost, the autoscaler's annotation, Registered and Idle.
	marked := func(n int, want ...string) {
		b.Helper()
		var have []string
		defer func() { assert.Equal(b, want, have) }()
		for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
			p := b.read(all[n])
			have = []string{
				p.Annotations["controller.kubernetes.io/pod-deletion-cost"], p.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"],
				condition(p, "slurmlet.dev/Registered"), condition(p, "slurmlet.dev/Idle"),
			}
			if fmt.Sprint(have) == fmt.Sprint(want) {
				return
			}
		}
	}
	node := func(n int, s wire.State) wire.NodeReport {
		return wire.NodeReport{Name: fmt.Sprintf("s-cpu-%d", n), State: s}
	}
	for _, p := range all {
		assert.Len(b, b.read(p).Status.Conditions, 1, "silence marks nothing")
	}
	tell := a.reports(b, node(0, wire.Idle), node(1, wire.Busy), node(2, wire.Idle), node(3, wire.Idle))
	marked(1, "100", "false", "True Busy", "False Busy")
	marked(0, "-100", "true", "True Idle", "True Idle")
	marked(2, "", "true", "True Idle", "True Idle")
	marked(3, "7", "true", "True Idle", "True Idle")

	tell(node(0, wire.Busy), node(1, wire.Idle), node(3, wire.Idle))
	marked(0, "100", "false", "True Idle", "False Busy")
	marked(2, "", "false", "False Absent", "False Absent")
	marked(1, "-100", "true", "True Busy", "True Idle")
	assert.Greater(b, idleSince(b.read(all[1])).Sub(idleSince(b.read(all[0]))), 3*time.Second, "a pod becomes dear at once, and cheap after a while")

	// The leader ends. The next one has the reports within the agent's confirmation, or at the next change.
	leader := b.leader()
	require.NoError(b, leader.Stop(20*time.Second))
	b.leader()
	tell(node(0, wire.Idle), node(1, wire.Busy), node(3, wire.Idle))
	marked(1, "100", "false", "True Busy", "False Busy")
	marked(0, "-100", "true", "True Idle", "True Idle")
	require.NoError(b, leader.Start())
	leader.ready()
}

func cordoned(b *bed) {
	a := b.agent(b.pod(spec{"hpc", "c-slurmctld-0", "c", "slurmctld", "", "", "", []string{"10.3.0.1"}}))
	for n, machine := range []string{"m3", "m4"} {
		b.node(machine)
		b.pod(spec{"hpc", fmt.Sprintf("c-cpu-%d", n), "c", "slurmd", "cpu", "", machine, []string{fmt.Sprintf("10.3.0.%d", n+2)}})
		a.has(fmt.Sprintf("c-cpu-%d", n), fmt.Sprintf("10.3.0.%d", n+2))
	}
	b.patchNode("m4", `{"spec":{"unschedulable":true}}`)
	report := func(drain string) []wire.NodeReport {
		return []wire.NodeReport{{Name: "c-cpu-0", State: wire.Busy, Drain: drain}, {Name: "c-cpu-1", State: wire.Idle, Drain: drain}}
	}
	tell := a.reports(b, report("bad DIMM")...)
	is := func(machine string, want bool) func() bool {
		return func() bool { return b.readNode(machine).Spec.Unschedulable == want }
	}
	b.eventually(patience, "m3 is cordoned", is("m3", true))
	assert.Equal(b, "cordon: c-cpu-0: bad DIMM", b.readNode("m3").Annotations["slurmlet.dev/drained-by-slurm"])
	tell(report("")...)
	b.eventually(patience, "m3 is not cordoned", is("m3", false))
	assert.Empty(b, b.readNode("m3").Annotations)
	assert.True(b, is("m4", true)(), "somebody else's cordon stays")
	assert.Empty(b, b.readNode("m4").Annotations)

	// A drained node's pod is deleted, and another node of the machine is idle.
	other := b.pod(spec{"hpc", "c-cpu-2", "c", "slurmd", "cpu", "", "m3", []string{"10.3.0.4"}})
	a.has(other.Name, "10.3.0.4")
	drained := wire.NodeReport{Name: other.Name, State: wire.Idle, Drain: "bad DIMM"}
	tell(append(report(""), drained)...)
	b.eventually(patience, "m3 is cordoned again", is("m3", true))
	assert.Equal(b, "hpc/c/c-cpu-2", b.readNode("m3").Annotations["slurmlet.dev/drained-nodes"])
	b.delete(other, 0)
	a.loses(other)
	tell(report("")...)
	b.foreignDrain()
	assert.True(b, is("m3", true)(), "nobody has resumed c-cpu-2")
	again := b.pod(spec{"hpc", "c-cpu-2", "c", "slurmd", "cpu", "", "m3", []string{"10.3.0.5"}})
	a.has(again.Name, "10.3.0.5")
	tell(append(report(""), wire.NodeReport{Name: again.Name, State: wire.Idle})...)
	b.eventually(patience, "m3 is not cordoned", is("m3", false))
	assert.Empty(b, b.readNode("m3").Annotations)
}

// foreignDrain is one of a tenant's cluster, which marks no machine. It comes back when the controller has taken it.
func (b *bed) foreignDrain() {
	b.namespace("tenant")
	a := b.agent(b.pod(spec{"tenant", "e-slurmctld-0", "e", "slurmctld", "", "", "", []string{"10.3.1.1"}}))
	b.node("m6")
	p := b.pod(spec{"tenant", "e-cpu-0", "e", "slurmd", "cpu", "", "m6", []string{"10.3.1.2"}})
	a.has(p.Name, "10.3.1.2")
	a.reports(b, wire.NodeReport{Name: p.Name, State: wire.Busy, Drain: "mine"})
	b.eventually(patience, "the pod is marked", func() bool { return condition(b.read(p), "slurmlet.dev/Idle") == "False Busy" })
	assert.False(b, b.readNode("m6").Spec.Unschedulable)
	assert.Empty(b, b.readNode("m6").Annotations)
}

// pods are those of a set, by name, with what became of them.
func (b *bed) pods(cluster string) (alive, ending []string) {
	list, err := b.kube.CoreV1().Pods("hpc").List(b.Context(), metav1.ListOptions{LabelSelector: "slurmlet.dev/role=slurmd,slurmlet.dev/cluster=" + cluster})
	require.NoError(b, err)
	for _, p := range list.Items {
		if p.DeletionTimestamp != nil {
			ending = append(ending, p.Name)
		} else {
			alive = append(alive, p.Name+" "+p.Labels["controller-revision-hash"])
		}
	}
	return alive, ending
}

// template is a set's, with the labels of a node.
func template(cluster string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"slurmlet.dev/cluster": cluster, "slurmlet.dev/role": "slurmd", "slurmlet.dev/node-set": "cpu"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "slurmd", Image: "slurm"}}},
	}
}

// statefulSet rolls three nodes, one at once. The test is the StatefulSet's controller and the kubelet.
func statefulSet(b *bed) {
	a := b.agent(b.pod(spec{"hpc", "r-slurmctld-0", "r", "slurmctld", "", "", "", []string{"10.4.0.1"}}))
	b.node("m5")
	t := template("r")
	s, err := b.kube.AppsV1().StatefulSets("hpc").Create(b.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "r-cpu", Annotations: map[string]string{"slurmlet.dev/roll": "1"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: t.Labels}, Template: t,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
		},
	}, metav1.CreateOptions{})
	require.NoError(b, err)
	returns := func(workload, node string) {
		b.Helper()
		b.eventually(patience, fmt.Sprintf("slurmctld's agent is told of %q for %s", workload, node), func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.returning != nil && a.returning.Of(node) == workload
		})
	}
	returns("StatefulSet r-cpu", "r-cpu-2")
	returns("", "r-cpu-3")
	pod := func(n int, revision string) *corev1.Pod {
		return b.owned(spec{"hpc", fmt.Sprintf("r-cpu-%d", n), "r", "slurmd", "cpu", "", "m5", []string{fmt.Sprintf("10.4.1.%d", n)}}, "StatefulSet", s.Name, s.UID, revision)
	}
	var all []*corev1.Pod
	for n := range 3 {
		all = append(all, pod(n, "r-cpu-1"))
		a.has(fmt.Sprintf("r-cpu-%d", n), fmt.Sprintf("10.4.1.%d", n))
	}
	report := func(busy string) []wire.NodeReport {
		var nodes []wire.NodeReport
		for n, is := range busy {
			nodes = append(nodes, wire.NodeReport{Name: fmt.Sprintf("r-cpu-%d", n), State: map[rune]wire.State{'b': wire.Busy, 'i': wire.Idle, '-': wire.Absent}[is]})
		}
		return nodes
	}
	tell := a.reports(b, report("bii")...)
	b.setRevision(s, "r-cpu-2")
	ending := func(want ...string) {
		b.Helper()
		b.eventually(patience, fmt.Sprint(want, " go"), func() bool {
			_, ending := b.pods("r")
			require.LessOrEqual(b, len(ending), 1, "one at once")
			return fmt.Sprint(ending) == fmt.Sprint(want)
		})
	}
	replace := func(n int, busy string) {
		b.Helper()
		b.delete(all[n], 0)
		all[n] = pod(n, "r-cpu-2")
		tell(report(busy)...)
	}
	ending("r-cpu-1") // an idle one
	events := func() int {
		list, err := b.kube.CoreV1().Events("hpc").List(b.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(s.UID)})
		require.NoError(b, err)
		return len(list.Items)
	}
	b.eventually(patience, "an event tells of it", func() bool { return events() == 1 })
	// The leader is killed. The next one finds the pod on its way, and waits for it.
	leader := b.leader()
	require.NoError(b, leader.Kill())
	b.leader()
	tell(report("b-i")...)
	ending("r-cpu-1")
	require.NoError(b, leader.Start())
	leader.ready()
	replace(1, "bii")
	ending("r-cpu-2")
	replace(2, "bii")
	// The last one has jobs.
	_, going := b.pods("r")
	assert.Empty(b, going)
	tell(report("iii")...)
	ending("r-cpu-0")
	replace(0, "iii")
	b.eventually(patience, "all are new", func() bool {
		alive, _ := b.pods("r")
		return fmt.Sprint(alive) == "[r-cpu-0 r-cpu-2 r-cpu-1 r-cpu-2 r-cpu-2 r-cpu-2]"
	})
	b.eventually(patience, "there is an event for each pod", func() bool { return events() == 3 })
	_, err = b.kube.AppsV1().StatefulSets("hpc").Patch(b.Context(), s.Name, types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{})
	require.NoError(b, err)
	returns("", "r-cpu-2")
	returns("StatefulSet r-cpu", "r-cpu-1")
}

// setRevision is what the StatefulSet's controller writes after a change of the template.
func (b *bed) setRevision(s *appsv1.StatefulSet, revision string) {
	patch := fmt.Sprintf(`{"status":{"replicas":3,"observedGeneration":%d,"updateRevision":%q}}`, s.Generation, revision)
	_, err := b.kube.AppsV1().StatefulSets("hpc").Patch(b.Context(), s.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	require.NoError(b, err)
}

// daemonSet finds the revision in the ControllerRevisions, and takes pods with jobs, too, because it is asked to.
func daemonSet(b *bed) {
	a := b.agent(b.pod(spec{"hpc", "d-slurmctld-0", "d", "slurmctld", "", "", "", []string{"10.5.0.1"}}))
	t := template("d")
	s, err := b.kube.AppsV1().DaemonSets("hpc").Create(b.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "d-cpu", Annotations: map[string]string{"slurmlet.dev/roll": "50%", "slurmlet.dev/roll-busy": "true"}},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: t.Labels}, Template: t,
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
		},
	}, metav1.CreateOptions{})
	require.NoError(b, err)
	for n := range 4 {
		machine := fmt.Sprintf("d%d", n)
		b.node(machine)
		b.owned(spec{"hpc", "d-cpu-" + machine, "d", "slurmd", "cpu", "", machine, []string{fmt.Sprintf("10.5.1.%d", n)}}, "DaemonSet", s.Name, s.UID, map[bool]string{true: "new", false: "old"}[n == 3])
		a.has("d-cpu-"+machine, fmt.Sprintf("10.5.1.%d", n))
	}
	for n, hash := range []string{"old", "new"} {
		_, err := b.kube.AppsV1().ControllerRevisions("hpc").Create(b.Context(), &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Name: "d-cpu-" + hash, Labels: map[string]string{
					"slurmlet.dev/cluster": "d", "slurmlet.dev/role": "slurmd", "slurmlet.dev/node-set": "cpu", "controller-revision-hash": hash,
				},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: s.Name, UID: s.UID, Controller: new(true)}},
			},
			Revision: int64(n + 1), Data: runtime.RawExtension{Raw: []byte("{}")},
		}, metav1.CreateOptions{})
		require.NoError(b, err)
	}
	a.reports(b, wire.NodeReport{Name: "d-cpu-d0", State: wire.Busy}, wire.NodeReport{Name: "d-cpu-d1", State: wire.Busy}, wire.NodeReport{Name: "d-cpu-d2", State: wire.Idle}, wire.NodeReport{Name: "d-cpu-d3", State: wire.Idle})
	b.eventually(patience, "the reports are there", func() bool {
		p, err := b.kube.CoreV1().Pods("hpc").Get(b.Context(), "d-cpu-d0", metav1.GetOptions{})
		return err == nil && condition(p, "slurmlet.dev/Idle") == "False Busy"
	})
	patch := fmt.Sprintf(`{"status":{"desiredNumberScheduled":4,"currentNumberScheduled":4,"numberReady":4,"numberMisscheduled":0,"observedGeneration":%d}}`, s.Generation)
	_, err = b.kube.AppsV1().DaemonSets("hpc").Patch(b.Context(), s.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	require.NoError(b, err)
	b.eventually(patience, "half of the pods go, the idle one among them", func() bool {
		_, ending := b.pods("d")
		require.LessOrEqual(b, len(ending), 2)
		return fmt.Sprint(ending) == "[d-cpu-d0 d-cpu-d2]"
	})
}

func badRolls(b *bed) {
	for name, c := range map[string]struct{ value, label, note string }{
		"x-number":   {"many", "slurmd", `The annotation slurmlet.dev/roll is "many": want a number from 1, or a percentage as in 10%.`},
		"x-role":     {"1", "login", "The annotation slurmlet.dev/roll is for nodes: the pods want the labels slurmlet.dev/cluster and slurmlet.dev/role=slurmd."},
		"x-strategy": {"1", "slurmd", "The annotation slurmlet.dev/roll wants the updateStrategy OnDelete, and it is RollingUpdate: Kubernetes itself replaces the pods, in their order."},
	} {
		t := template(name)
		t.Labels["slurmlet.dev/role"] = c.label
		s, err := b.kube.AppsV1().StatefulSets("hpc").Create(b.Context(), &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"slurmlet.dev/roll": c.value}},
			Spec:       appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: t.Labels}, Template: t},
		}, metav1.CreateOptions{})
		require.NoError(b, err)
		b.eventually(patience, name+" has an event", func() bool {
			list, err := b.kube.CoreV1().Events("hpc").List(b.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(s.UID)})
			return err == nil && len(list.Items) == 1 && list.Items[0].Message == c.note && list.Items[0].Reason == "BadRoll"
		})
	}
}
