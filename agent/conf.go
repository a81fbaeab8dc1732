package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/confsync"
	"github.com/slurmlet/slurmlet/internal/reconfig"
)

// conf is slurmctld's configuration, and those who wait for it.
type conf struct {
	*reconfig.Reloader
	feed    confsync.Feed
	tickets atomic.Int64
	judged  bell
	// last is the last edit that was taken; only the owner knows.
	last *ReloadStatus
}

// Debounce is how long the sources have to stay as they are before they are read.
const Debounce = reconfig.Debounce

// ofLife is an error as step knows it.
func ofLife(err error) error {
	if kept, is := errors.AsType[reconfig.InUse](err); is {
		return inUse{kept.Why}
	}
	return err
}

// openConf reads what slurmctld can be started with.
func (a *Agent) openConf() {
	a.conf.Reloader, a.life.good = reconfig.Open(reconfig.Options{
		Sources: a.Config.ConfSources, RunDir: a.Config.RunDir, StateDir: a.Config.StateDir, Preflight: a.Config.Preflight,
		Defaults: a.Config.ConfDefaults, SlurmUser: a.Config.SlurmUser,
		Daemon: reconfig.Daemon{Path: a.daemon.path, Env: a.daemon.environ(a), Credential: a.daemon.credential},
		Table:  a.Table, Client: a.client, Feed: &a.conf.feed, CopyKeys: a.takeKeys, Fatal: a.fatalSince, Log: a.tell,
	})
	first := a.readSources()
	a.life.next = &first
}

// fatalSince is the daemon's last fatal line since a time, empty for none.
func (a *Agent) fatalSince(since time.Time) string {
	a.output.Flush()
	if last := a.lastFatal.Load(); last != nil && !last.At.Before(since) {
		return last.Text
	}
	return ""
}

func (a *Agent) readSources() edition {
	set, err := a.conf.Read()
	return edition{set: set, err: err, at: time.Now()}
}

// performReload does one action of a reload. All of them take their time.
func (a *Agent) performReload(act action) bool {
	if act, is := act.(armReload); is {
		time.AfterFunc(act.after, func() { a.post(reloadTimer{act.number}) })
		return true
	}
	var do func(context.Context) event
	switch act := act.(type) {
	case check:
		do = func(ctx context.Context) event {
			i, err := a.conf.CheckEdit(ctx, act.set)
			return checked{act.number, i.Staged, i.Changes, i.Anew, ofLife(err)}
		}
	case checkFirst:
		do = func(ctx context.Context) event {
			i, err := a.conf.CheckFirst(ctx, act.set, act.good)
			return checked{act.number, i.Staged, i.Changes, i.Anew, ofLife(err)}
		}
	case awaitLaunches:
		do = func(ctx context.Context) event {
			return launchesOver{act.number, ofLife(a.conf.AwaitLaunches(ctx, act.limit))}
		}
	case place:
		do = func(context.Context) event { return placeEnded{act.number, a.conf.Place(act.set, act.staged)} }
	case reconfigure:
		do = func(ctx context.Context) event {
			return reconfigureEnded{act.number, a.conf.Reconfigure(ctx, act.set, act.staged)}
		}
	case askNodes:
		do = func(ctx context.Context) event {
			n, err := a.conf.AskNodes(ctx, act.urge, act.after)
			return nodesAsked{act.number, n.Took, n.Missed, n.Unheard, n.Canary, n.Cost, err}
		}
	case keep:
		go a.conf.Keep()
		return true
	default:
		return false
	}
	go func() { a.post(do(a.alive)) }()
	return true
}

// reloadCommand tries what the sources hold now, and waits for the verdict.
func (a *Agent) reloadCommand(ctx context.Context, _ *http.Request) error {
	e := a.readSources()
	e.forced, e.ticket = true, int(a.conf.tickets.Add(1))
	a.post(e)
	for {
		next := a.conf.judged.next()
		s := a.Status()
		switch {
		case s.Conf.judged >= e.ticket:
			return s.Conf.err()
		case s.State == Stopping || s.State == Exited:
			return errors.New("the pod is terminating: its configuration is not changed any more")
		}
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-a.over:
			return errors.New("the agent ends")
		}
	}
}

func (a *Agent) serveDiff(w http.ResponseWriter, _ *http.Request) {
	d := a.conf.Difference()
	d.Refused = a.Status().Conf.Refused
	_ = json.NewEncoder(w).Encode(d) // the reader has gone
}
