package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/slurmconf"
)

const (
	// registrationTime is what slurmctld gets to register its cluster by itself.
	registrationTime = 5 * time.Second
	// registrationPause is between questions to slurmdbd, registrationTrust between
	// reconfigures that have not helped.
	registrationPause, registrationTrust = 15 * time.Second, 10 * time.Minute
)

// registration is what the agent knows of the cluster's in slurmdbd.
type registration struct {
	// known is the slurmctld that slurmdbd knows the cluster of, seen the last one.
	known, seen int
	// next is when to ask again, retry when to reconfigure again, at the earliest.
	next, retry time.Time
}

// seeRegistered has slurmctld register its cluster with slurmdbd where it has not.
// slurmctld does that as it starts and reconfigures, and not later: one that starts
// from its state while slurmdbd is away goes on without, and if slurmdbd has never
// heard of this cluster, it drops all it is told of its jobs.
func (a *Agent) seeRegistered() {
	var r registration
	for {
		news := a.published.next()
		var due <-chan time.Time
		if s := a.status.Load(); s.State == lifecycle.Ready && s.Main != nil && s.Main.PID != r.known {
			r = a.register(r, s.Main.PID, time.Now())
			if r.known != s.Main.PID {
				due = time.After(time.Until(r.next))
			}
		}
		select {
		case <-news:
		case <-due:
		case <-a.over:
			return
		}
	}
}

// register asks slurmdbd about the cluster of a running slurmctld, when it is time to.
func (a *Agent) register(r registration, pid int, now time.Time) registration {
	cluster, accounts := accountedAs(a.conf.Live())
	switch {
	case cluster != "" && !accounts:
		return registration{known: pid}
	case r.seen != pid:
		r.seen, r.next = pid, now.Add(registrationTime)
		return r
	case now.Before(r.next):
		return r
	}
	r.next = now.Add(registrationPause)
	if cluster == "" { // it is being put in place
		return r
	}
	ctx, cancel := context.WithTimeout(context.Background(), lifecycle.TakeLimit)
	defer cancel()
	registered, err := a.client.Registered(ctx, cluster)
	switch {
	case err != nil: // slurmctld tells of it itself
		return r
	case registered:
		return registration{known: pid}
	case now.Before(r.retry):
		return r
	}
	a.tell(slog.LevelWarn, "slurmdbd does not know this cluster, and keeps nothing of its jobs: slurmctld reconfigures, and registers it", slog.String("cluster", cluster))
	r.retry = now.Add(registrationTrust)
	// A slurmctld of 24.11 refuses the id that slurmdbd gives the cluster; the one
	// that stays in its place takes it.
	if err := a.conf.ReconfigureAgain(ctx); err != nil {
		a.tell(slog.LevelWarn, "slurmctld has not reconfigured to register its cluster", slog.Any("error", err))
	}
	return r
}

// accountedAs reads of the set in dir as what slurmdbd knows the cluster, if it does.
func accountedAs(dir string) (cluster string, accounts bool) {
	set, _ := slurmconf.Read(slurmconf.Dir(dir), slurmconf.SlurmConf)
	conf := set.Conf(slurmconf.SlurmConf)
	name, _ := conf.Get("ClusterName")
	return name.Value, conf.Accounted()
}
