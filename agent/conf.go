package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/confsync"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
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
		return lifecycle.InUse{Why: kept.Why}
	}
	return err
}

// openConf reads what slurmctld can be started with.
func (a *Agent) openConf() {
	a.conf.Reloader, a.life.Good = reconfig.Open(reconfig.Options{
		Sources: a.Config.ConfSources, RunDir: a.Config.RunDir, StateDir: a.Config.StateDir, Preflight: a.Config.Preflight,
		Defaults: a.Config.ConfDefaults, SlurmUser: a.Config.SlurmUser,
		Daemon: reconfig.Daemon{Path: a.daemon.path, Env: a.daemon.environ(a), Credential: a.daemon.credential},
		Table:  a.Table, Client: a.client, Feed: &a.conf.feed, CopyKeys: a.takeKeys, Fatal: a.fatalSince, Log: a.log,
	})
	first := a.readSources()
	a.life.Next = &first
}

// fatalSince is the daemon's last fatal line since a time, empty for none.
func (a *Agent) fatalSince(since time.Time) string {
	a.output.Flush()
	if last := a.lastFatal.Load(); last != nil && !last.At.Before(since) {
		return last.Text
	}
	return ""
}

func (a *Agent) readSources() lifecycle.Revision {
	set, err := a.conf.Read()
	return lifecycle.Revision{Set: set, Err: err, At: time.Now()}
}

// performReload does one action of a reload. All of them take their time.
func (a *Agent) performReload(act lifecycle.Action) bool {
	if act, is := act.(lifecycle.ArmReload); is {
		time.AfterFunc(act.After, func() { a.post(lifecycle.ReloadTimerFired{Number: act.Number}) })
		return true
	}
	var do func(context.Context) lifecycle.Event
	switch act := act.(type) {
	case lifecycle.Check:
		do = func(ctx context.Context) lifecycle.Event {
			i, err := a.conf.CheckEdit(ctx, act.Set)
			return lifecycle.Checked{Number: act.Number, Staged: i.Staged, Changes: i.Changes, Anew: i.Anew, Err: ofLife(err)}
		}
	case lifecycle.CheckFirst:
		do = func(ctx context.Context) lifecycle.Event {
			i, err := a.conf.CheckFirst(ctx, act.Set, act.Good)
			return lifecycle.Checked{Number: act.Number, Staged: i.Staged, Changes: i.Changes, Anew: i.Anew, Err: ofLife(err)}
		}
	case lifecycle.AwaitLaunches:
		do = func(ctx context.Context) lifecycle.Event {
			return lifecycle.LaunchesOver{Number: act.Number, Err: ofLife(a.conf.AwaitLaunches(ctx, act.Limit))}
		}
	case lifecycle.Place:
		do = func(context.Context) lifecycle.Event {
			return lifecycle.PlaceEnded{Number: act.Number, Err: a.conf.Place(act.Set, act.Staged)}
		}
	case lifecycle.Reconfigure:
		do = func(ctx context.Context) lifecycle.Event {
			return lifecycle.ReconfigureEnded{Number: act.Number, Err: a.conf.Reconfigure(ctx, act.Set, act.Staged)}
		}
	case lifecycle.AskNodes:
		do = func(ctx context.Context) lifecycle.Event {
			n, err := a.conf.AskNodes(ctx, act.Restart, act.After)
			return lifecycle.NodesAsked{Number: act.Number, Took: n.Took, Missed: n.Missed, Unheard: n.Unheard, Canary: n.Canary, Cost: n.Cost, Err: err}
		}
	case lifecycle.Keep:
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
	e.Forced, e.Request = true, int(a.conf.tickets.Add(1))
	a.post(e)
	for {
		next := a.conf.judged.next()
		s := a.Status()
		switch {
		case s.Conf.judged >= e.Request:
			return s.Conf.err()
		case s.State == lifecycle.Stopping || s.State == lifecycle.Exited:
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
