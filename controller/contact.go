package controller

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// contact knows whether this replica hears of Kubernetes. Every replica asks for the Lease every two seconds,
// and etcd itself answers that; so nothing else has to be asked.
type contact struct {
	answered atomic.Int64 // the time of the last answer
	// wrote is when this replica last began to write the Lease with success, counted from begun: a clock that
	// is set makes no term longer.
	wrote atomic.Int64
	begun time.Time
	// silent is since when no watch of pods or nodes stands.
	silent func() time.Time
}

// mostSilence is how long a replica may hear nothing of Kubernetes before its table counts as an old one.
const mostSilence = time.Minute

func newContact(silent func() time.Time) *contact {
	c := &contact{silent: silent, begun: time.Now()}
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

// heard is a lock that tells the contact of each answer, and that gives back this replica's own Lease alone.
type heard struct {
	resourcelock.Interface
	*contact
	// holder has the Lease as it was read last, which is what a write replaces.
	holder string
}

func (h *heard) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := h.Interface.Get(ctx)
	h.note(err)
	if err == nil && record != nil {
		h.holder = record.HolderIdentity
	}
	return record, raw, err
}

func (h *heard) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return h.write(func() error { return h.Interface.Create(ctx, r) })
}

// Update refuses to take the Lease from another replica before its time. client-go does that to give the Lease back at
// the end of a term: it reads the Lease, and asks itself what it knew before whether it is the holder. A leader that
// stood still would end its successor's term, and lead beside it.
func (h *heard) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.HolderIdentity == "" && h.holder != "" && h.holder != h.Identity() {
		return fmt.Errorf("the Lease is not given back: %s has it now", h.holder)
	}
	return h.write(func() error { return h.Interface.Update(ctx, r) })
}

func (h *heard) write(write func() error) error {
	began := time.Since(h.begun)
	err := write()
	if err == nil {
		h.wrote.Store(int64(began))
	}
	h.note(err)
	return err
}

// endTerm calls stop when the Lease has not been written for most, and returns then, or when ctx ends.
func (c *contact) endTerm(ctx context.Context, stop func(), most time.Duration) {
	for {
		left := time.Duration(c.wrote.Load()) + most - time.Since(c.begun)
		if left <= 0 {
			stop()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(left):
		}
	}
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
