package refresh

import (
	"context"
	"encoding/json"
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
	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

func TestParse(t *testing.T) {
	names, err := Parse("hpc/slurm,lab/slurm.conf")
	require.NoError(t, err)
	assert.Equal(t, []types.NamespacedName{{Namespace: "hpc", Name: "slurm"}, {Namespace: "lab", Name: "slurm.conf"}}, names)
	names, err = Parse("none")
	require.NoError(t, err)
	assert.Empty(t, names)
	_, err = Parse("slurm,hpc/*,hpc/slurm,hpc/slurm")
	require.EqualError(t, err, "want namespace/name of a ConfigMap, not \"slurm\"\nwant namespace/name of a ConfigMap, not \"hpc/*\"\nhpc/slurm is named twice")
}

func object(version int, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "slurm", UID: "map", ResourceVersion: fmt.Sprint(version)}, Data: data}
}

func conf(text string) map[string]string { return map[string]string{confset.Main: text} }

func digest(text string) string { return confset.TextsDigest(conf(text)) }

// TestTrim: the digest is the one that an agent makes of the directory, and no file's text is kept.
func TestTrim(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.ConfigMap)
		want   string
	}{
		"one":                {func(*corev1.ConfigMap) {}, digest("a")},
		"a key":              {func(m *corev1.ConfigMap) { m.Data["slurm.key"] = "secret" }, digest("a")},
		"without slurm.conf": {func(m *corev1.ConfigMap) { m.Data = map[string]string{"burst.json": "{}"} }, ""},
		"binary data": {
			func(m *corev1.ConfigMap) { m.BinaryData = map[string][]byte{"gres.conf": []byte("g")} },
			confset.TextsDigest(map[string]string{confset.Main: "a", "gres.conf": "g"}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := object(7, conf("a"))
			c.change(m)
			kept, err := trim(m)
			require.NoError(t, err)
			assert.Equal(t, c.want, kept.(*configMap).digest)
			again, err := trim(kept)
			require.NoError(t, err)
			assert.Same(t, kept, again)
		})
	}
}

// world is a cluster with slurmctld's pod, and a leader that refreshes it.
type world struct {
	*testing.T
	api     *fakekube.Clientset
	reports *reports.Reports
	began   time.Time
	mu      sync.Mutex
	// patches are the annotation's values with the second of each, such as "0 7".
	patches []string
}

func pod(name, role, configMap string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "hpc", Name: name, UID: types.UID(name), Labels: map[string]string{pods.ClusterLabel: "slurm", pods.RoleLabel: role},
		},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}}}},
		}}}}},
	}
}

// in plays a story in a bubble.
func in(t *testing.T, first *corev1.ConfigMap, story func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, reports: reports.New(), began: time.Now()}
		w.api = fakekube.New(first, pod("ctld", "slurmctld", "slurm"), pod("other", "slurmctld", "another"), pod("n-0", "slurmd", "slurm"))
		w.api.PrependReactor("patch", "pods", func(a testapi.Action) (bool, runtime.Object, error) {
			var said struct{ Metadata metav1.ObjectMeta }
			assert.NoError(t, json.Unmarshal(a.(testapi.PatchAction).GetPatch(), &said))
			assert.Equal(t, []any{"status", "ctld", types.UID("ctld")}, []any{a.GetSubresource(), a.(testapi.PatchAction).GetName(), said.Metadata.UID})
			w.mu.Lock()
			defer w.mu.Unlock()
			w.patches = append(w.patches, fmt.Sprint(time.Since(w.began).Seconds(), " ", said.Metadata.Annotations[wellknown.ConfigVersion]))
			return true, nil, nil
		})
		log := slog.New(slog.DiscardHandler)
		rules, err := machines.Parse(machines.Settings{})
		require.NoError(t, err)
		watcher, err := pods.New(w.api, namespaces.Set{}, peerserver.NewServer(peerserver.ServerOptions{}), rules, log)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { watcher.Run(ctx, func() {}) })
		synctest.Wait()
		r := New(w.api, []types.NamespacedName{{Namespace: "hpc", Name: "slurm"}}, watcher, w.reports, log)
		running.Go(func() { r.Lead(ctx, "replica") })
		synctest.Wait()
		w.began = time.Now()
		story(w)
		stop()
		running.Wait()
	})
}

func (w *world) edit(m *corev1.ConfigMap) {
	w.Helper()
	require.NoError(w, w.api.Tracker().Update(corev1.SchemeGroupVersion.WithResource("configmaps"), m, "hpc"))
	synctest.Wait()
}

// report is slurmctld's agent's.
func (w *world) report(digest string) {
	w.Helper()
	require.NoError(w, w.reports.Take(peerserver.Identity{Cluster: "hpc/slurm", Role: "slurmctld"}, wire.Report{Whole: true, Conf: digest}))
}

// pass lets a bubble's time pass.
func pass(pause time.Duration) {
	<-time.After(pause)
	synctest.Wait()
}

// after waits, and holds what was patched meanwhile.
func (w *world) after(pause time.Duration, want ...string) {
	w.Helper()
	pass(pause)
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Equal(w, want, w.patches)
	w.patches, w.began = nil, time.Now()
}

// events are the notes.
func (w *world) events() (notes []string) {
	list, err := w.api.EventsV1().Events("hpc").List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	for _, e := range list.Items {
		notes = append(notes, e.Reason+": "+e.Note)
	}
	return notes
}

// TestRefresh: slurmctld's pod, and no other, is patched for each edit until its agent has reported it.
func TestRefresh(t *testing.T) {
	in(t, object(5, conf("a")), func(w *world) {
		w.report(digest("a"))
		w.after(time.Minute) // it had the first version
		w.edit(object(7, conf("b")))
		w.after(time.Second, "0 7")
		w.report(digest("b"))
		w.after(time.Minute)
		labelled := object(8, conf("b"))
		labelled.Labels = map[string]string{"a": "b"}
		w.edit(labelled)
		w.after(time.Minute) // no edit

		w.edit(object(9, conf("c")))
		w.after(3*time.Second, "0 9", "2 9-2")
		w.report(digest("c"))
		w.after(time.Minute)
		assert.Empty(w, w.events())
	})
}

// TestNotDelivered: an event says what the kubelet has not delivered, once, and not where nobody reports.
func TestNotDelivered(t *testing.T) {
	in(t, object(5, conf("a")), func(w *world) {
		w.report(digest("a"))
		w.after(time.Minute)
		w.edit(object(7, conf("b")))
		for range 60 {
			w.report(digest("a"))
			pass(time.Second)
		}
		w.after(0, "0 7", "2 7-2", "6 7-3")
		assert.Equal(w, []string{"NotDelivered: The pod ctld does not have version 7 of the ConfigMap slurm after 14s. The kubelet delivers it within " +
			"about a minute, unless the pod mounts it by subPath or has other files in the directory of slurm.conf."}, w.events())

		w.edit(object(8, map[string]string{"burst.json": "{}"}))
		w.after(time.Minute, "0 8", "2 8-2", "6 8-3")
		require.Len(w, w.events(), 1, "the agent reports no such directory")
	})
	in(t, object(5, conf("a")), func(w *world) {
		w.after(time.Minute, "2 5", "4 5-2", "8 5-3") // an agent of before
		assert.Empty(w, w.events())
	})
}

// TestManyEdits: a ConfigMap that changes all the time costs two patches in a second, and the last version counts.
func TestManyEdits(t *testing.T) {
	in(t, object(5, conf("a")), func(w *world) {
		w.report(digest("a"))
		w.after(time.Minute)
		for n := range 20 {
			w.edit(object(10+n, conf(fmt.Sprint(n))))
			pass(90 * time.Millisecond) // no edit comes when a patch is due
		}
		w.report(digest("19"))
		w.after(time.Minute, "0 10", "0.5 15", "1 21", "1.5 26")
	})
}
