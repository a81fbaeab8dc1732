package controller

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is the name of the Lease that names the leader.
const lease = "slurmlet-controller"

// The times of the Lease are client-go's usual ones for a controller.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// mostTerm is how long after it has written the Lease a replica leads at most. Others take the Lease after leaseDuration,
// so a leader that is cut off has some seconds to end what it is writing. client-go alone takes renewDeadline more: before
// it says that a replica leads no more, it tries to give the Lease back.
const mostTerm = renewDeadline + retryPeriod

// elect takes part in elections until ctx ends, and then gives the Lease back.
func (c *controller) elect(ctx context.Context) {
	for ctx.Err() == nil {
		c.stand(ctx)
	}
}

// stand waits until this replica leads, and until it does so no more.
func (c *controller) stand(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lock := &heard{Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: c.Namespace, Name: lease},
		Client:     c.api.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.PodName},
	}, contact: c.contact}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, Name: lease, ReleaseOnCancel: true,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				go c.contact.endTerm(ctx, stop, mostTerm)
				c.reports.Lead()
				term := c.terms.Add(1)
				c.leader.Store(term)
				c.log.Info("this replica leads")
				context.AfterFunc(ctx, func() {
					c.leader.CompareAndSwap(term, 0) // the next term may have begun
					c.log.Info("this replica leads no more")
				})
				c.lead(ctx)
			},
			OnStoppedLeading: func() {}, // ctx has ended
		},
	})
}

func (c *controller) leads() bool { return c.leader.Load() != 0 }
