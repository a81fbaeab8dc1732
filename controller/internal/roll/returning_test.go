package roll

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/controller/internal/fakekube"
	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/controller/internal/namespaces"
	"github.com/slurmlet/slurmlet/controller/internal/pods"
	"github.com/slurmlet/slurmlet/controller/internal/reports"
	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestNodesOf: which StatefulSets have nodes, and of which cluster.
func TestNodesOf(t *testing.T) {
	for name, tt := range map[string]struct {
		labels, annotations map[string]string
		first               int32
		deleted             bool
		want                nodes
	}{
		"nodes":                    {labels: map[string]string{pods.ClusterLabel: "c", pods.RoleLabel: "slurmd"}, want: nodes{"hpc/c", 0}},
		"from another number":      {labels: map[string]string{pods.ClusterLabel: "c", pods.RoleLabel: "slurmd"}, first: 7, want: nodes{"hpc/c", 7}},
		"the webhook's":            {annotations: map[string]string{wellknown.Inject: "slurmd", pods.ClusterLabel: "c"}, want: nodes{"hpc/c", 0}},
		"login pods":               {labels: map[string]string{pods.ClusterLabel: "c", pods.RoleLabel: "login"}},
		"of no cluster":            {labels: map[string]string{pods.RoleLabel: "slurmd"}},
		"others":                   {},
		"the set is being deleted": {labels: map[string]string{pods.ClusterLabel: "c", pods.RoleLabel: "slurmd"}, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			from := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "cpu"}}
			from.Spec.Template.Labels, from.Spec.Template.Annotations = tt.labels, tt.annotations
			if tt.first > 0 {
				from.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: tt.first}
			}
			if tt.deleted {
				from.DeletionTimestamp = new(metav1.Now())
			}
			got, err := trim(from)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got.(*set).nodes)
		})
	}
}

// TestReturning: a cluster's StatefulSets are told once all are known, and when one changes or goes.
func TestReturning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cpu := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "cpu", UID: "cpu"},
			Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2)), Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{pods.ClusterLabel: "slurm", pods.RoleLabel: "slurmd"}},
			}},
		}
		api := fakekube.New(cpu)
		r := bare(t, api)
		told := make(chan []string, 10)
		r.SetsChanged = func(clusters ...string) { told <- clusters }
		assert.Nil(t, r.Returning("hpc/slurm"), "nobody knows yet")
		ended := make(chan struct{})
		go func() { r.Run(ctx); close(ended) }()
		next := func() []string {
			select {
			case clusters := <-told:
				return clusters
			case <-time.After(limit):
				t.Fatal("nobody is told")
				return nil
			}
		}
		one := []string{"hpc/slurm"}
		assert.Equal(t, one, next())
		assert.Empty(t, next(), "all are known")
		assert.Equal(t, &wire.Returning{StatefulSets: []wire.StatefulSet{{Name: "cpu", Replicas: 2}}}, r.Returning("hpc/slurm"))
		assert.Equal(t, &wire.Returning{}, r.Returning("hpc/other"), "it has none, which is known")

		cpu = cpu.DeepCopy()
		cpu.Spec.Replicas = new(int32(1))
		_, err := api.AppsV1().StatefulSets("hpc").Update(ctx, cpu, metav1.UpdateOptions{})
		require.NoError(t, err)
		assert.Equal(t, one, next())
		assert.Equal(t, 1, r.Returning("hpc/slurm").StatefulSets[0].Replicas)
		require.NoError(t, api.AppsV1().StatefulSets("hpc").Delete(ctx, "cpu", metav1.DeleteOptions{}))
		for len(r.Returning("hpc/slurm").StatefulSets) > 0 {
			next()
		}
		cancel()
		<-ended
	})
}

// bare is a Roller whose watcher knows no pod.
func bare(t *testing.T, api *fakekube.Clientset) *Roller {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	rules, err := machines.Parse(machines.Settings{})
	require.NoError(t, err)
	w, err := pods.New(api, namespaces.Set{}, peerserver.NewServer(peerserver.ServerOptions{}), rules, log)
	require.NoError(t, err)
	r, err := New(api, namespaces.Set{}, w, reports.New(), "c-0", log)
	require.NoError(t, err)
	return r
}
