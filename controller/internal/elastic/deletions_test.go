package elastic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// bed is a leader whose cluster has elastic pods that Slurm does not want, and a Kubernetes that may refuse deletions.
type bed struct {
	*Maker
	refusals *refusals
	// end ends the leader, and log is what it has said.
	end func()
	log *strings.Builder
}

// refusals say why Kubernetes deletes no pod. It is asked for each.
type refusals struct {
	mu    sync.Mutex
	why   func(name string) error
	asked int
}

// say sets the answer to further deletions, and returns how many there were since the last answer was set.
func (r *refusals) say(why func(name string) error) (asked int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked = r.asked
	r.why, r.asked = why, 0
	return asked
}

func (r *refusals) react(a testapi.Action) (bool, runtime.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	err := r.why(a.(testapi.DeleteAction).GetName())
	return err != nil, nil, err
}

func none(string) error { return nil }

// forbidden is Kubernetes' answer to a controller without the right.
func forbidden(name string) error {
	return apierrors.NewForbidden(corev1.Resource("pods"), name, errors.New(`User "c" cannot delete resource "pods"`))
}

func leader(t *testing.T, s Settings, unwanted int, why func(string) error) *bed {
	t.Helper()
	objects, nodes := []runtime.Object(nil), []wire.NodeReport(nil)
	for n := range unwanted {
		name := fmt.Sprint("c-", n)
		objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "hpc", Name: name, UID: types.UID(name), CreationTimestamp: metav1.Now(), Labels: labels(burst),
		}})
		nodes = append(nodes, wire.NodeReport{Name: name, State: wire.Idle, Elastic: "gpu"})
	}
	b := &bed{refusals: &refusals{why: why}, log: &strings.Builder{}}
	api := fakekube.New(objects...)
	api.PrependReactor("delete", "pods", b.refusals.react)
	rules, err := machines.Parse(machines.Settings{})
	require.NoError(t, err)
	w, err := pods.New(api, namespaces.Set{}, peerserver.NewServer(peerserver.ServerOptions{}), rules, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	told := reports.New()
	s.QPS, s.Burst = 50, 100
	b.Maker, err = New(api, w, told, s, "c-0", slog.New(slog.NewTextHandler(b.log, nil)))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	synced := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx, func() { close(synced) }) })
	running.Go(func() { b.Run(ctx) })
	b.end = func() { cancel(); running.Wait() }
	select {
	case <-synced:
	case <-time.After(limit):
		t.Fatal("the pods are not known")
	}
	told.Lead()
	running.Go(func() { b.Lead(ctx) })
	running.Go(func() { // slurmctld's agent confirms it each minute
		for tick := time.NewTicker(limit); ctx.Err() == nil; {
			require.NoError(t, told.Take(peerserver.Identity{Cluster: "hpc/slurm"}, wire.Report{Whole: true, Nodes: nodes}))
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return b
}

// left are the pods that the watch has, after a while.
func (b *bed) left(after time.Duration) int {
	<-time.After(after)
	return len(b.watcher.InCluster("hpc/slurm"))
}

func (b *bed) lines() int { return strings.Count(b.log.String(), "cannot delete a pod") }

// TestRefusedDeletions: they leave the rate to others, and the log has each cause once.
func TestRefusedDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		b := leader(t, Settings{On: true}, many, forbidden)
		defer b.end()
		assert.Equal(t, many, b.left(5*time.Minute))
		asked := b.refusals.say(func(string) error { return apierrors.NewInternalError(errors.New("etcd does not answer")) })
		assert.Less(t, asked, atOnce+30, "one node after the other tries")
		assert.Equal(t, many, b.left(5*time.Minute))
		assert.Less(t, b.refusals.say(func(name string) error { return fmt.Errorf("no answer to /pods/%s", name) }), 15)
		assert.Equal(t, many, b.left(5*time.Minute))
		assert.Less(t, b.refusals.say(none), 15)
		assert.Zero(t, b.left(2*lastRefusal), "the refusals are over")
		b.end()
		assert.Equal(t, 3, b.lines(), b.log)
	})
}

// TestOneRefusedDeletion: a pod that alone is refused keeps no other one.
func TestOneRefusedDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		b := leader(t, Settings{On: true}, many, func(name string) error {
			if name == "c-7" {
				return forbidden(name)
			}
			return nil
		})
		defer b.end()
		assert.Equal(t, 1, b.left(20*time.Second))
		b.left(5 * time.Minute)
		assert.Less(t, b.refusals.say(none), many+20)
		assert.Zero(t, b.left(2*lastRefusal))
		b.end()
		assert.Equal(t, 1, b.lines(), b.log)
	})
}

// TestNamespaces: pods in a namespace that the settings leave out stay.
func TestNamespaces(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings Settings
		left     int
	}{
		{"all", Settings{On: true}, 0},
		{"that of the pods", Settings{On: true, In: namespaces.Of("hpc", "lab")}, 0},
		{"another one", Settings{On: true, In: namespaces.Of("lab")}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := leader(t, c.settings, 3, none)
				defer b.end()
				assert.Equal(t, c.left, b.left(5*time.Minute))
				assert.Equal(t, 3-c.left, b.refusals.say(none))
			})
		})
	}
}
