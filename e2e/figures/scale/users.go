package main

import (
	"fmt"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// users are what a cluster's users do: they run squeue and scontrol ping, one after the other.
type users struct {
	cluster *native.Cluster
	// squeue and ping are how long these took from their start to their end, and bare how long a
	// scontrol takes that asks nobody: what the machine is the reason of.
	squeue, ping, bare durations
	failed             []error
}

// between commands slurmctld is left alone.
const between = 50 * time.Millisecond

func (u *users) round() {
	for _, one := range []struct {
		took *durations
		path string
		args []string
	}{
		{&u.bare, "/usr/bin/scontrol", []string{"show", "hostnames", "n1"}},
		{&u.ping, "/usr/bin/scontrol", []string{"ping"}},
		{&u.squeue, "/usr/bin/squeue", []string{"--noheader"}},
	} {
		<-time.After(between)
		began := time.Now()
		_, err := askAsUser(u.cluster, one.path, one.args...)
		*one.took = append(*one.took, time.Since(began))
		if err != nil {
			u.failed = append(u.failed, fmt.Errorf("%s: %w", one.path, err))
		}
	}
}

// start has them ask until they are stopped.
func (u *users) start() (stop func()) {
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stopping:
				return
			default:
				u.round()
			}
		}
	}()
	return func() {
		close(stopping)
		<-stopped
	}
}

func (u *users) answered() error {
	if len(u.failed) > 0 {
		return fmt.Errorf("%d of %d commands of users failed: %w", len(u.failed), len(u.ping)+len(u.squeue), u.failed[0])
	}
	return nil
}
