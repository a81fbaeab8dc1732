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

// elect takes part in elections until ctx ends, and then gives the Lease back.
func (c *controller) elect(ctx context.Context) {
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: c.Namespace, Name: lease},
		Client:     c.api.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.PodName},
	}
	for ctx.Err() == nil {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: heard{lock, c.contact}, Name: lease, ReleaseOnCancel: true,
			LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					c.reports.Lead()
					c.leader.Store(true)
					c.log.Info("this replica leads")
					c.lead(ctx)
				},
				OnStoppedLeading: func() {
					if c.leader.Swap(false) {
						c.log.Info("this replica leads no more")
					}
				},
			},
		})
	}
}
