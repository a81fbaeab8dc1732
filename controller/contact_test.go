package controller

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseAnswer is a Lease about which Kubernetes answers with an error, or none.
type leaseAnswer struct {
	resourcelock.Interface
	err    error
	record *resourcelock.LeaderElectionRecord
}

func (l *leaseAnswer) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return l.record, nil, l.err
}

func (l *leaseAnswer) Identity() string { return "controller-0" }

func (l *leaseAnswer) Create(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }

func (l *leaseAnswer) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }

// TestContact: a replica is in contact as long as Kubernetes answers, and its watches stand.
func TestContact(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for name, tt := range map[string]struct {
		said    error
		broken  time.Duration // how long ago; 0: it stands
		contact bool
	}{
		"an answer":                       {nil, 0, true},
		"a refusal":                       {apierrors.NewForbidden(leases, lease, nil), 0, true},
		"there is no Lease yet":           {apierrors.NewNotFound(leases, lease), 0, true},
		"another replica has it":          {apierrors.NewConflict(leases, lease, nil), 0, true},
		"no answer":                       {context.DeadlineExceeded, 0, false},
		"no way":                          {errors.New("connection refused"), 0, false},
		"etcd does not answer":            {apierrors.NewGenericServerResponse(http.StatusGatewayTimeout, "get", leases, lease, "", 0, true), 0, false},
		"a watch has just ended":          {nil, time.Second, true},
		"no watch has stood for a minute": {nil, mostSilence, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			c := newContact(func() time.Time {
				if tt.broken == 0 {
					return time.Time{}
				}
				return now.Add(-tt.broken)
			})
			before := now.Add(-2 * mostSilence)
			for _, ask := range []func(*heard) error{
				func(h *heard) error { _, _, err := h.Get(t.Context()); return err },
				func(h *heard) error { return h.Create(t.Context(), resourcelock.LeaderElectionRecord{}) },
				func(h *heard) error { return h.Update(t.Context(), resourcelock.LeaderElectionRecord{}) },
			} {
				c.answered.Store(before.UnixNano())
				assert.Equal(t, tt.said, ask(&heard{Interface: &leaseAnswer{err: tt.said}, contact: c}))
				assert.Equal(t, tt.contact, c.lost(time.Now()).IsZero())
			}
		})
	}
}

// TestTerm: a replica leads as long as it writes the Lease.
func TestTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContact(func() time.Time { return time.Time{} })
		answer := &leaseAnswer{}
		lock := &heard{Interface: answer, contact: c}
		begun := time.Now()
		require.NoError(t, lock.Create(t.Context(), resourcelock.LeaderElectionRecord{}))
		ctx, stop := context.WithCancel(t.Context())
		go c.endTerm(ctx, stop, mostTerm)
		for range 30 {
			<-time.After(retryPeriod)
			require.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}))
			require.NoError(t, ctx.Err())
		}
		last := time.Now()
		require.Equal(t, time.Minute, last.Sub(begun))
		answer.err = context.DeadlineExceeded
		<-time.After(retryPeriod)
		require.Error(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}))
		<-ctx.Done()
		assert.Equal(t, mostTerm, time.Since(last), "nothing else is a term")
		assert.Less(t, mostTerm, leaseDuration-2*time.Second)
	})
}

// TestGiveBack: a replica gives its own Lease back, and writes into nobody else's but by the rules of an election.
func TestGiveBack(t *testing.T) {
	for name, tt := range map[string]struct {
		holder, next string
		refused      bool
	}{
		"its own, given back":         {"controller-0", "", false},
		"its own, renewed":            {"controller-0", "controller-0", false},
		"nobody's":                    {"", "", false},
		"its successor's, given back": {"controller-1", "", true},
		"another's that has run out":  {"controller-1", "controller-0", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newContact(func() time.Time { return time.Time{} })
			c.wrote.Store(-1)
			lock := &heard{Interface: &leaseAnswer{record: &resourcelock.LeaderElectionRecord{HolderIdentity: tt.holder}}, contact: c}
			_, _, err := lock.Get(t.Context())
			require.NoError(t, err)
			err = lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: tt.next})
			if tt.refused {
				require.EqualError(t, err, "the Lease is not given back: controller-1 has it now")
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, tt.refused, c.wrote.Load() == -1)
		})
	}
}
