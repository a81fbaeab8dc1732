package cordon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testapi "k8s.io/client-go/testing"

	"github.com/slurmlet/slurmlet/controller/internal/fakekube"
	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/controller/internal/namespaces"
	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/controller/internal/reports"
	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// limit is of the time of a bubble, where waiting costs none.
const limit = time.Minute

// slurmd is a pod of a cluster on a machine.
func slurmd(cluster, name, machine string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "hpc", Name: name, UID: types.UID(name), CreationTimestamp: metav1.Now(),
			Labels: map[string]string{pods.ClusterLabel: cluster, pods.RoleLabel: "slurmd"},
		},
		Spec:   corev1.PodSpec{NodeName: machine},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}},
	}
}

// keeper is one that watches until the test ends.
func keeper(t *testing.T, api *fakekube.Clientset) *Keeper {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	rules, err := machines.Parse(machines.Settings{})
	require.NoError(t, err)
	w, err := pods.New(api, namespaces.Set{}, peerserver.NewServer(peerserver.ServerOptions{}), rules, log)
	require.NoError(t, err)
	k, err := New(Settings{Cordon, []string{"hpc"}}, api, w, reports.New(), log)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	synced := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx, func() { close(synced) }) })
	t.Cleanup(func() { cancel(); running.Wait() })
	select {
	case <-synced:
	case <-time.After(limit):
		t.Fatal("the pods are not known")
	}
	return k
}

// TestKeep: a mark stays while nobody tells of one of the machine's nodes, and while the pod of a drained node ends.
func TestKeep(t *testing.T) {
	idle := func(name, drain string) wire.NodeReport {
		return wire.NodeReport{Name: name, State: wire.Idle, Drain: drain}
	}
	type told struct {
		cluster string
		nodes   []wire.NodeReport
	}
	for _, c := range []struct {
		name string
		// marked: the machine has a mark at the start. ending: the pod of a-0 ends.
		marked, ending bool
		told           []told
		want           bool
	}{
		{"both are idle", true, false, []told{{"a", []wire.NodeReport{idle("a-0", "")}}, {"b", []wire.NodeReport{idle("b-0", "")}}}, false},
		{"the last one to tell is idle", true, false, []told{{"b", []wire.NodeReport{idle("b-0", "")}}, {"a", []wire.NodeReport{idle("a-0", "")}}}, false},
		{"nobody tells of the drained one", true, false, []told{{"b", []wire.NodeReport{idle("b-0", "")}}}, true},
		{"nobody tells of one that ends", true, true, []told{{"b", []wire.NodeReport{idle("b-0", "")}}}, true},
		{"nobody tells, and there is no mark", false, false, []told{{"b", []wire.NodeReport{idle("b-0", "")}}}, false},
		{"a drained one ends", true, true, []told{{"a", []wire.NodeReport{idle("a-0", "bad DIMM")}}, {"b", []wire.NodeReport{idle("b-0", "")}}}, true},
		{"one is drained while it ends", false, true, []told{{"b", []wire.NodeReport{idle("b-0", "")}}, {"a", []wire.NodeReport{idle("a-0", "bad DIMM")}}}, true},
		{"one that ends resumes nothing", true, true, []told{{"a", []wire.NodeReport{idle("a-0", "")}}, {"b", nil}}, true},
		{"the record of one that ends is gone", true, true, []told{{"b", []wire.NodeReport{idle("b-0", "")}}, {"a", nil}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}
				if c.marked {
					change(m, Cordon, mark, []string{"hpc/a/a-0"}, "a-0: bad DIMM")
				}
				first := slurmd("a", "a-0", "m1")
				if c.ending {
					first.DeletionTimestamp, first.Finalizers = new(metav1.Now()), []string{"example.com/held"}
				}
				api := fakekube.New(m, first, slurmd("b", "b-0", "m1"))
				k := keeper(t, api)
				ctx, cancel := context.WithCancel(t.Context())
				var leading sync.WaitGroup
				leading.Go(func() { k.Lead(ctx) })
				defer func() { cancel(); leading.Wait() }()
				for _, one := range c.told {
					synctest.Wait()
					require.NoError(t, k.reports.Take(peerserver.Identity{Cluster: "hpc/" + one.cluster}, wire.Report{Whole: true, Nodes: one.nodes}))
				}
				synctest.Wait()
				n, err := api.CoreV1().Nodes().Get(ctx, "m1", metav1.GetOptions{})
				require.NoError(t, err)
				assert.Equal(t, c.want, n.Spec.Unschedulable)
				assert.Equal(t, c.want, n.Annotations[machines.Annotation] != "")
			})
		})
	}
}

// TestManyNames: a report tells of the nodes that it names, and of no other.
func TestManyNames(t *testing.T) {
	const many = 100
	list, names := &corev1.PodList{}, []string(nil)
	for n := range many {
		p := slurmd("a", fmt.Sprintf("cpu-%05d", n), fmt.Sprintf("m%d", n))
		list.Items, names = append(list.Items, *p), append(names, p.Name)
	}
	api := fakekube.New()
	api.PrependReactor("list", "pods", func(testapi.Action) (bool, runtime.Object, error) { return true, list, nil })
	k := keeper(t, api)
	require.Len(t, k.watcher.InCluster("hpc/a"), many)
	k.lead(true)
	k.reported("hpc/a", []string{"cpu-other"})
	assert.Empty(t, k.dirty)
	k.reported("hpc/a", names[many-1:])
	assert.Equal(t, map[string]bool{"m99": true}, k.dirty)
}

// isCordoned says whether m1 is.
func isCordoned(t *testing.T, api *fakekube.Clientset) bool {
	t.Helper()
	n, err := api.CoreV1().Nodes().Get(t.Context(), "m1", metav1.GetOptions{})
	require.NoError(t, err)
	return n.Spec.Unschedulable
}

// leading has a Keeper lead, and returns what ends it.
func leading(t *testing.T, k *Keeper) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var leads sync.WaitGroup
	leads.Go(func() { k.Lead(ctx) })
	synctest.Wait()
	return func() { cancel(); leads.Wait() }
}

// tell has slurmctld's agent tell of all nodes of a cluster, and waits for what follows.
func tell(t *testing.T, k *Keeper, cluster string, nodes ...wire.NodeReport) {
	t.Helper()
	require.NoError(t, k.reports.Take(peerserver.Identity{Cluster: cluster}, wire.Report{Whole: true, Nodes: nodes}))
	synctest.Wait()
}

// TestNotResumed: a mark stays until each node that it is for is resumed, whatever other nodes of the machine do.
func TestNotResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := slurmd("a", "a-0", "m1")
		api := fakekube.New(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}, first, slurmd("a", "a-1", "m1"))
		k := keeper(t, api)
		defer leading(t, k)()
		idle := wire.NodeReport{Name: "a-1", State: wire.Idle}
		tell(t, k, "hpc/a", wire.NodeReport{Name: "a-0", State: wire.Idle, Drain: "bad DIMM"}, idle)
		require.True(t, isCordoned(t, api))
		require.NoError(t, api.CoreV1().Pods("hpc").Delete(t.Context(), "a-0", metav1.DeleteOptions{}))
		tell(t, k, "hpc/a", idle) // the record has gone with the pod
		assert.True(t, isCordoned(t, api))
		tell(t, k, "hpc/a", idle, wire.NodeReport{Name: "a-0", State: wire.Idle})
		assert.True(t, isCordoned(t, api), "it is on another machine")
		_, err := api.CoreV1().Pods("hpc").Create(t.Context(), first, metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		tell(t, k, "hpc/a", idle, wire.NodeReport{Name: "a-0", State: wire.Busy})
		assert.False(t, isCordoned(t, api))
	})
}

// TestStrangersDrain: a namespace that the site does not name marks no machine.
func TestStrangersDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		evil := slurmd("evil", "e-0", "m1")
		evil.Namespace = "tenant"
		api := fakekube.New(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}, evil, slurmd("a", "a-0", "m1"))
		k := keeper(t, api)
		defer leading(t, k)()
		tell(t, k, "hpc/a", wire.NodeReport{Name: "a-0", State: wire.Idle})
		tell(t, k, "tenant/evil", wire.NodeReport{Name: "e-0", State: wire.Idle, Drain: "mine"})
		assert.False(t, isCordoned(t, api))
	})
}
