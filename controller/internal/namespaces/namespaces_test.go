package namespaces

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/slurmlet/slurmlet/controller/internal/fakekube"
)

func TestParse(t *testing.T) {
	for value, want := range map[string][]string{"all": {""}, "hpc": {"hpc"}, "lab,hpc,lab": {"hpc", "lab"}} {
		s, err := Parse(value)
		require.NoError(t, err, value)
		assert.Equal(t, want, s.Names())
		again, err := Parse(s.String())
		require.NoError(t, err, value)
		assert.Equal(t, s, again)
	}
	for _, value := range []string{"", "none,", "hpc,", "hpc lab", "HPC", "*", "all,hpc."} {
		_, err := Parse(value)
		assert.Error(t, err, value)
	}
}

func TestHas(t *testing.T) {
	some := Of("lab", "hpc")
	assert.True(t, some.Has("hpc"))
	assert.True(t, some.Has("lab"))
	assert.False(t, some.Has("kube-system"))
	assert.False(t, some.Has(""))
	assert.True(t, Set{}.Has("kube-system"))
	assert.Equal(t, []string{"web"}, some.Lacks(Of("hpc", "web")))
	assert.Empty(t, some.Lacks(Set{}))
	assert.Empty(t, Set{}.Lacks(some))
}

// pods are informers of pods over an API with one in each of hpc, lab and web, which may forbid to list a namespace.
func pods(t *testing.T, in Set, forbidden string) *Informers {
	t.Helper()
	var objects []runtime.Object
	for _, namespace := range []string{"hpc", "lab", "web"} {
		objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}})
	}
	api := fakekube.New(objects...)
	api.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		refused := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", http.ErrNotSupported)
		return a.GetNamespace() == forbidden && forbidden != "none", nil, refused
	})
	i, err := in.Informers(func(namespace string) (cache.SharedIndexInformer, error) {
		return informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithNamespace(namespace)).Core().V1().Pods().Informer(), nil
	})
	require.NoError(t, err)
	return i
}

// run runs informers until the test's end.
func run(t *testing.T, i *Informers) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { i.Run(ctx); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
}

// TestInformers: several informers are read as one, and one that is forbidden holds up no other.
func TestInformers(t *testing.T) {
	for name, c := range map[string]struct {
		in        Set
		forbidden string
		want      []string
	}{
		"all namespaces":            {Set{}, "none", []string{"hpc", "lab", "web"}},
		"some":                      {Of("hpc", "lab"), "none", []string{"hpc", "lab"}},
		"a named one that is gone":  {Of("hpc", "lab"), "lab", []string{"hpc"}},
		"named ones that are gone":  {Of("lab"), "lab", nil},
		"a named one without a pod": {Of("empty", "web"), "none", []string{"web"}},
	} {
		t.Run(name, func(t *testing.T) {
			i := pods(t, c.in, c.forbidden)
			require.NoError(t, i.AddIndexers(cache.Indexers{"name": func(o any) ([]string, error) { return []string{o.(*corev1.Pod).Name}, nil }}))
			told := make(chan string, 3)
			known, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { told <- o.(*corev1.Pod).Namespace }})
			require.NoError(t, err)
			assert.False(t, known() || i.HasSynced())
			run(t, i)
			require.Eventually(t, func() bool { return known() && i.HasSynced() }, time.Minute, time.Millisecond)
			indexed, err := i.ByIndex("name", "p")
			require.NoError(t, err)
			assert.Len(t, indexed, len(c.want))
			assert.Len(t, i.List(), len(c.want))
			var heard []string
			for range c.want {
				heard = append(heard, <-told)
			}
			assert.ElementsMatch(t, c.want, heard)
			for _, namespace := range []string{"hpc", "lab", "web", "kube-system"} {
				assert.Equal(t, slices.Contains(c.want, namespace), i.Get(namespace, "p") != nil, namespace)
			}
			assert.Nil(t, i.Get("hpc", "q"))
		})
	}
}

// TestForbiddenEverywhere: where the rights for all namespaces are missing, nothing counts as known.
func TestForbiddenEverywhere(t *testing.T) {
	i := pods(t, Set{}, "")
	known, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	require.NoError(t, err)
	failed := make(chan error, 100)
	require.NoError(t, i.all[0].SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		i.all[0].failed(ctx, r, err)
		failed <- err
	}))
	run(t, i)
	require.True(t, apierrors.IsForbidden(<-failed))
	assert.False(t, known() || i.HasSynced())
}
