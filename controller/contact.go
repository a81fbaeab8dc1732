package controller

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// contact knows whether this replica hears of Kubernetes. Every replica asks for the Lease every two seconds,
// and etcd itself answers that; so nothing else has to be asked.
type contact struct {
	answered atomic.Int64 // the time of the last answer
	// silent is since when no watch of pods or nodes stands.
	silent func() time.Time
}

// mostSilence is how long a replica may hear nothing of Kubernetes before its table counts as an old one.
const mostSilence = time.Minute

func newContact(silent func() time.Time) *contact {
	c := &contact{silent: silent}
	c.answered.Store(time.Now().UnixNano())
	return c
}

// lost says since when the replica hears nothing; zero while it hears, and for a silence that is short.
func (c *contact) lost(now time.Time) (since time.Time) {
	since = time.Unix(0, c.answered.Load())
	if at := c.silent(); !at.IsZero() && at.Before(since) {
		since = at
	}
	if now.Sub(since) < mostSilence {
		return time.Time{}
	}
	return since
}

// note takes the answer to a question for the Lease. A refusal is an answer, too.
func (c *contact) note(err error) {
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) {
		c.answered.Store(time.Now().UnixNano())
	}
}

// heard is a lock that tells the contact of each answer.
type heard struct {
	resourcelock.Interface
	*contact
}

func (h heard) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := h.Interface.Get(ctx)
	h.note(err)
	return record, raw, err
}

func (h heard) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := h.Interface.Create(ctx, r)
	h.note(err)
	return err
}

func (h heard) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := h.Interface.Update(ctx, r)
	h.note(err)
	return err
}

// watchContact logs when the replica ceases to hear of Kubernetes, and when it hears again.
func (c *controller) watchContact(ctx context.Context) {
	tick := time.NewTicker(mostSilence / 12)
	defer tick.Stop()
	for was := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		since := c.contact.lost(time.Now())
		switch is := !since.IsZero(); {
		case is && !was:
			c.log.Warn("Kubernetes is silent: agents are told that their table may be an old one, and new streams are refused", "since", since)
		case was && !is:
			c.log.Info("Kubernetes is heard again")
		}
		was = !since.IsZero()
	}
}
