package pods

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/controller/internal/namespaces"
	"github.com/slurmlet/slurmlet/controller/peerserver"
)

const limit = time.Minute

// api is a Kubernetes without pods and nodes, which may be broken.
type api struct {
	broken atomic.Bool
	// forbidden is a namespace that nobody may watch.
	forbidden string
	// old are lists that may be answered with an older state than etcd's.
	old, lists atomic.Int32
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case a.forbidden != "" && strings.Contains(r.URL.Path, "/namespaces/"+a.forbidden+"/"):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Forbidden","code":403}`)
	case a.broken.Load():
		http.Error(w, "etcd does not answer", http.StatusInternalServerError)
	case q.Get("sendInitialEvents") != "": // an API server of an older version
		http.Error(w, "", http.StatusUnprocessableEntity)
	case q.Get("watch") != "":
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		a.lists.Add(1)
		if q.Get("resourceVersion") == "0" {
			a.old.Add(1)
		}
		kind := map[string]string{"pods": "PodList", "nodes": "NodeList"}[path.Base(r.URL.Path)]
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"`+kind+`","metadata":{"resourceVersion":"5"},"items":[]}`)
	}
}

// TestSilent: the watcher knows since when Kubernetes lets it watch nothing, and begins with what etcd has.
func TestSilent(t *testing.T) {
	a := &api{}
	server := httptest.NewServer(a)
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	rules, err := machines.Parse(machines.Settings{})
	require.NoError(t, err)
	w, err := New(client, namespaces.Set{}, peerserver.NewServer(peerserver.ServerOptions{}), rules, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended, synced := make(chan struct{}), make(chan struct{})
	go func() { w.Run(ctx, func() { close(synced) }); close(ended) }()
	defer func() { cancel(); server.CloseClientConnections(); <-ended }()
	select {
	case <-synced:
	case <-time.After(limit):
		t.Fatal("not synced")
	}
	require.Eventually(t, func() bool { return w.Silent().IsZero() }, limit, 10*time.Millisecond)
	assert.GreaterOrEqual(t, a.lists.Load(), int32(2))
	assert.Zero(t, a.old.Load())

	began := time.Now()
	a.broken.Store(true)
	server.CloseClientConnections()
	require.Eventually(t, func() bool { return !w.Silent().IsZero() }, limit, 10*time.Millisecond)
	since := w.Silent()
	assert.True(t, since.After(began))
	a.broken.Store(false)
	require.Eventually(t, func() bool { return w.Silent().IsZero() }, limit, 10*time.Millisecond)
}

// TestForbiddenNamespace: a named namespace that is gone keeps the others neither from their start nor from being fresh.
func TestForbiddenNamespace(t *testing.T) {
	a := &api{forbidden: "gone"}
	server := httptest.NewServer(a)
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	rules, err := machines.Parse(machines.Settings{})
	require.NoError(t, err)
	w, err := New(client, namespaces.Of("gone", "hpc"), peerserver.NewServer(peerserver.ServerOptions{}), rules, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended, synced := make(chan struct{}), make(chan struct{})
	go func() { w.Run(ctx, func() { close(synced) }); close(ended) }()
	defer func() { cancel(); server.CloseClientConnections(); <-ended }()
	select {
	case <-synced:
	case <-time.After(limit):
		t.Fatal("not synced")
	}
	require.Eventually(t, func() bool { return w.Silent().IsZero() }, limit, 10*time.Millisecond)
	refused := w.sources[1]
	_, err = refused.asked(nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil))
	require.Error(t, err)
	assert.True(t, w.Silent().IsZero(), "a watch that ends is forbidden later")
	_, err = refused.asked(nil, io.ErrUnexpectedEOF)
	require.Error(t, err)
	assert.False(t, w.Silent().IsZero(), "another fault is a silence")
}
