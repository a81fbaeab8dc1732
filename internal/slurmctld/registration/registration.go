// Package registration has slurmctld register its cluster with slurmdbd.
package registration

import (
	"context"
	"log/slog"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf"
)

const (
	// registrationTime is what slurmctld gets to register its cluster by itself.
	registrationTime = 5 * time.Second
	// registrationPause is between questions to slurmdbd, registrationTrust between
	// reconfigures that have not helped.
	registrationPause, registrationTrust = 15 * time.Second, 10 * time.Minute
)

// Keeper has slurmctld register its cluster with slurmdbd where it has not.
// slurmctld does that as it starts and reconfigures, and not later: one that starts
// from its state while slurmdbd is away goes on without, and if slurmdbd has never
// heard of this cluster, it drops all reports of its jobs.
type Keeper struct {
	// Slurmctld is the pid of a slurmctld that serves, 0 for none; news is closed when that
	// may have changed.
	Slurmctld func() (pid int, news <-chan struct{})
	// Live is the directory with slurmctld's configuration.
	Live   func() string
	Client slurm.Client
	// Reconfigure has slurmctld reconfigure.
	Reconfigure func(context.Context) error
	// Done is closed when the agent has ended.
	Done <-chan struct{}
	Log  func(level slog.Level, text string, attrs ...slog.Attr)

	registration
}

// registration is what the agent knows of the cluster's in slurmdbd.
type registration struct {
	// known is the slurmctld that slurmdbd knows the cluster of, seen the last one.
	known, seen int
	// next is when to ask again, retry when to reconfigure again, at the earliest.
	next, retry time.Time
}

// Run looks after the registration until Done.
func (r *Keeper) Run() {
	for {
		pid, news := r.Slurmctld()
		var due <-chan time.Time
		if pid != 0 && pid != r.known {
			r.look(pid, time.Now())
			if r.known != pid {
				due = time.After(time.Until(r.next))
			}
		}
		select {
		case <-news:
		case <-due:
		case <-r.Done:
			return
		}
	}
}

// look asks slurmdbd about the cluster of a running slurmctld, when it is time to.
func (r *Keeper) look(pid int, now time.Time) {
	cluster, accounts := accountedAs(r.Live())
	switch {
	case cluster != "" && !accounts:
		r.registration = registration{known: pid}
		return
	case r.seen != pid:
		r.seen, r.next = pid, now.Add(registrationTime)
		return
	case now.Before(r.next):
		return
	}
	r.next = now.Add(registrationPause)
	if cluster == "" { // it is being put in place
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), conf.TakeLimit)
	defer cancel()
	registered, err := r.Client.Registered(ctx, cluster)
	switch {
	case err != nil: // slurmctld logs it itself
		return
	case registered:
		r.registration = registration{known: pid}
		return
	case now.Before(r.retry):
		return
	}
	r.Log(slog.LevelWarn,
		"slurmdbd does not know this cluster, and keeps nothing of its jobs: slurmctld reconfigures, and registers it",
		slog.String("cluster", cluster))
	r.retry = now.Add(registrationTrust)
	// A slurmctld of 24.11 refuses the id that slurmdbd gives the cluster; the one
	// that stays in its place takes it.
	if err := r.Reconfigure(ctx); err != nil {
		r.Log(slog.LevelWarn, "slurmctld has not reconfigured to register its cluster", slog.Any("error", err))
	}
}

// accountedAs reads of the set in dir as what slurmdbd knows the cluster, if it does.
func accountedAs(dir string) (cluster string, accounts bool) {
	set, _ := slurmconf.Read(slurmconf.Dir(dir), slurmconf.SlurmConf)
	conf := set.Conf(slurmconf.SlurmConf)
	name, _ := conf.Get("ClusterName")
	return name.Value, conf.Accounted()
}
