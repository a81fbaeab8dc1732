package roll

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// pod is one of the set cpu.
func pod(name, revision string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "hpc", Name: name, UID: types.UID(name + " " + revision), CreationTimestamp: metav1.Now(),
			Labels: map[string]string{
				pods.ClusterLabel: "slurm", pods.RoleLabel: "slurmd", "app": "cpu", appsv1.ControllerRevisionHashLabelKey: revision,
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "cpu", UID: "cpu", Controller: new(true)}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

// roller is one over two idle pods of an old revision, one of which may be away.
func roller(t *testing.T, ctx context.Context) (*Roller, *fakekube.Clientset) {
	t.Helper()
	labels := map[string]string{pods.ClusterLabel: "slurm", pods.RoleLabel: "slurmd", "app": "cpu"}
	api := fakekube.New(pod("cpu-0", "old"), pod("cpu-1", "old"), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "cpu", UID: "cpu", Annotations: map[string]string{Annotation: "1"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cpu"}},
			Template:       corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
		},
		Status: appsv1.StatefulSetStatus{UpdateRevision: "new"},
	})
	log, told := slog.New(slog.DiscardHandler), reports.New()
	rules, err := machines.Parse(machines.Settings{})
	require.NoError(t, err)
	w, err := pods.New(api, namespaces.Set{}, peerserver.NewServer(peerserver.ServerOptions{}), rules, log)
	require.NoError(t, err)
	r, err := New(api, namespaces.Set{}, w, told, "c-0", log)
	require.NoError(t, err)
	synced := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx, func() { close(synced) }) })
	running.Go(func() { r.Run(ctx) })
	t.Cleanup(running.Wait)
	select {
	case <-synced:
	case <-time.After(limit):
		t.Fatal("the pods are not known")
	}
	told.Lead()
	require.NoError(t, told.Take(peerserver.Identity{Cluster: "hpc/slurm"}, wire.Report{Whole: true, Nodes: []wire.NodeReport{{Name: "cpu-0", State: wire.Idle}, {Name: "cpu-1", State: wire.Idle}}}))
	return r, api
}

// TestFailedDeletion: a roll goes on after a deletion that has failed, and takes no second pod where the deletion has
// worked and only its answer is lost.
func TestFailedDeletion(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		done bool
	}{
		{"no answer", context.DeadlineExceeded, false},
		{"too many requests", apierrors.NewTooManyRequests("later", 1), false},
		{"a fault", apierrors.NewInternalError(errors.New("etcd does not answer")), false},
		{"the answer is lost", context.DeadlineExceeded, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				r, api := roller(t, ctx)
				var mu sync.Mutex
				var asked []string
				api.PrependReactor("delete", "pods", func(a testapi.Action) (bool, runtime.Object, error) {
					mu.Lock()
					defer mu.Unlock()
					name := a.(testapi.DeleteAction).GetName()
					if asked = append(asked, name); len(asked) > 1 {
						return false, nil, nil
					}
					if c.done {
						assert.NoError(t, api.Tracker().Delete(a.GetResource(), "hpc", name))
					}
					return true, nil, c.err
				})
				var leading sync.WaitGroup
				leading.Go(func() { r.Lead(ctx) })
				defer func() { cancel(); leading.Wait() }()
				<-time.After(limit)
				mu.Lock()
				defer mu.Unlock()
				want := []string{"cpu-0", "cpu-0"}
				if c.done {
					want = want[:1]
				}
				assert.Equal(t, want, asked)
				_, err := api.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "hpc", "cpu-0")
				assert.True(t, apierrors.IsNotFound(err), err)
				_, err = api.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "hpc", "cpu-1")
				assert.NoError(t, err, "one at once")
			})
		})
	}
}

// TestManyNames: a report tells of the nodes that it names, and of no other.
func TestManyNames(t *testing.T) {
	const many = 100
	list, names := &corev1.PodList{}, []string(nil)
	for n := range many {
		p := pod(fmt.Sprintf("cpu-%05d", n), "old")
		list.Items, names = append(list.Items, *p), append(names, p.Name)
	}
	api := fakekube.New()
	api.PrependReactor("list", "pods", func(testapi.Action) (bool, runtime.Object, error) { return true, list, nil })
	rules, err := machines.Parse(machines.Settings{})
	require.NoError(t, err)
	w, err := pods.New(api, namespaces.Set{}, peerserver.NewServer(peerserver.ServerOptions{}), rules, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	r, err := New(api, namespaces.Set{}, w, reports.New(), "c-0", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	synced, ended := make(chan struct{}), make(chan struct{})
	go func() { w.Run(ctx, func() { close(synced) }); close(ended) }()
	defer func() { cancel(); <-ended }()
	<-synced
	require.Len(t, w.InCluster("hpc/slurm"), many)

	r.lead(true)
	r.reported("hpc/slurm", []string{"cpu-other"})
	assert.Empty(t, r.dirty)
	r.reported("hpc/slurm", names[many-1:])
	assert.Equal(t, map[types.UID]bool{"cpu": true}, r.dirty)
}
