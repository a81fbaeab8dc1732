package reconfig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// Open makes the directories ready. It returns the last good set, nil for none.
func Open(o Options) (*Reloader, *confset.Set) {
	uid, gid := o.Daemon.uid(), o.Daemon.gid()
	r := &Reloader{
		Options: o,
		liveSet: confset.Store{Dir: o.RunDir, Name: "conf", UID: uid, GID: gid},
		goodSet: confset.Store{Dir: o.StateDir, Sub: "slurmlet", Name: "conf", UID: uid, GID: gid, Lasting: true},
	}
	// slurmctld makes its directory, and not the one above; it reports what cannot be made.
	if os.Mkdir(o.StateDir, 0o755) == nil {
		_ = os.Lchown(o.StateDir, uid, gid)
	}
	good, err := r.goodSet.Load()
	if err != nil {
		r.Log(slog.LevelWarn, "there is no good configuration to fall back on", slog.Any("error", err))
	}
	if good != nil {
		good = good.WithKeys(confset.ReadKeys(o.Sources))
	}
	return r, good
}

// Do carries out one action of a reload. It returns what the action has led to, nil for nothing.
func (r *Reloader) Do(ctx context.Context, act lifecycle.Action) lifecycle.Event {
	switch act := act.(type) {
	case conf.Check:
		i, err := r.checkEdit(ctx, act.Set)
		return conf.Checked{Number: act.Number, Staged: i.staged, Changes: i.changes, Anew: i.anew, Err: err}
	case conf.CheckFirst:
		i, err := r.checkFirst(ctx, act.Set, act.Good)
		return conf.Checked{Number: act.Number, Staged: i.staged, Changes: i.changes, Anew: i.anew, Err: err}
	case conf.AwaitLaunches:
		return conf.LaunchesOver{Number: act.Number, Err: r.awaitLaunches(ctx, act.Limit)}
	case conf.Place:
		return conf.PlaceEnded{Number: act.Number, Err: r.placeFirst(ctx, act.Set, act.Staged)}
	case conf.Reconfigure:
		return conf.ReconfigureEnded{Number: act.Number, Err: r.reconfigure(ctx, act.Set, act.Staged)}
	case conf.AskNodes:
		return r.askNodes(ctx, act)
	case conf.Keep:
		r.keep()
		return nil
	}
	panic(fmt.Sprintf("reconfig: no such action: %T", act))
}

// TryNow tries what the sources hold now, and waits for the result.
func (r *Reloader) TryNow(ctx context.Context, post func(lifecycle.Event)) error {
	revision := r.readForced(post)
	for {
		now := r.seen.Load()
		switch {
		case now.state.Conf.Resolved >= revision.Request && now.state.Conf.Result != "":
			return errors.New(now.state.Conf.Result)
		case now.state.Conf.Resolved >= revision.Request:
			return nil
		case now.ending():
			return errors.New("the pod is terminating: its configuration is not changed any more")
		}
		select {
		case <-now.replaced:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A reconfigure drops the messages that slurmctld has for the nodes, and the answers that it
// waits for. A batch job whose launch is among them does not begin: slurmctld counts it as
// running until slurmd registers much later, and fails it then; or slurmd cannot confirm that
// it has the launch, and cancels the job. The job is requeued only if it may be.
//
// A reconfigure also kills what slurmctld runs before a job, and waits for its end. slurmctld 24.11.5 then hangs for
// ever, if there are many. So they are ended before it.

// awaitLaunches waits until slurmctld has sent the nodes what it had for them, and notes the
// node starts before. It returns a conf.InUse if the checked set cannot be used after all.
func (r *Reloader) awaitLaunches(ctx context.Context, limit time.Duration) error {
	r.holdAccounts(ctx)
	// A slurmd may have been started meanwhile.
	answered := r.untilQuiet(ctx, limit, r.attempt.known().starts != nil, func() bool { return r.noteStarts(ctx) })
	removed := r.attempt.known().removed
	err := r.mayGo(ctx, removed) // and jobs may have come
	if err == nil && answered {  // one that hangs is ended by an edit
		err = r.pendingMayGo(ctx, removed, false)
	}
	if err != nil {
		r.releaseJobs()
	}
	return err
}

// ReconfigureAgain has slurmctld reconfigure with what is live, at a moment that loses no launch.
func (r *Reloader) ReconfigureAgain(ctx context.Context) error {
	defer r.releaseJobs()
	r.holdAccounts(ctx)
	r.untilQuiet(ctx, conf.SendLimit, true, func() bool { return true })
	return r.Client.Reconfigure(ctx)
}

// untilQuiet: what note notes before the reconfigure, if that took time or was not noted
// yet, is noted before slurmctld is asked for the last time: the next launch may come at any
// moment. No answer is not "none": a slurmctld without one is asked again, and the limit
// counts from its first. answered is false of one that has not answered at all.
func (r *Reloader) untilQuiet(ctx context.Context, limit time.Duration, noted bool, note func() bool) (answered bool) {
	for r.Programs != nil && !r.Programs.Settled() && ctx.Err() == nil {
		noted = false
		pause(ctx, conf.FirstLook)
	}
	began, held, silent := time.Now(), false, false
	for heard, tries := began, 0; ctx.Err() == nil; tries++ {
		o, err := r.outgoing(ctx)
		quiet := err == nil && r.endPrograms() && o == slurm.Outgoing{}
		if silent && err == nil {
			heard = time.Now()
		}
		silent = err != nil
		switch {
		case err != nil && time.Since(began) >= limitOfSilence(err, limit):
			r.Log(slog.LevelWarn,
				"cannot ask whether jobs are being launched; the reconfigure does not wait for them", slog.Any("error", err))
			return false
		case err != nil:
			pause(ctx, backoff.Grow(conf.FirstLook, tries, backoff.LastTry))
			continue
		case quiet && noted:
			return true
		case time.Since(heard) >= limit:
			r.Log(slog.LevelWarn,
				"slurmctld reconfigures while it sends jobs to nodes, or does not list its nodes: batch jobs that it launches now may fail",
				slog.Int("sending", o.Sending), slog.Int("queued", o.Queued), slog.Bool("nodes", noted))
			return true
		case quiet && note():
			noted = true
			continue
		case !quiet:
			noted = false
		}
		if !quiet && !held && time.Since(heard) >= holdAfter {
			r.holdJobs(ctx)
			held = true
			continue
		}
		pause(ctx, conf.FirstLook)
	}
	return false
}

// limitOfSilence: a slurmctld that does not answer would not take a configuration either.
func limitOfSilence(err error, limit time.Duration) time.Duration {
	if errors.Is(err, slurm.ErrUnreachable) {
		return conf.TakeLimit
	}
	return limit
}

func (r *Reloader) endPrograms() (over bool) { return r.Programs == nil || r.Programs.End() }

func (r *Reloader) outgoing(ctx context.Context) (slurm.Outgoing, error) {
	ctx, cancel := context.WithTimeout(ctx, node.QuestionLimit)
	defer cancel()
	return r.Client.Outgoing(ctx)
}

// reconfigure places a set and has slurmctld and the nodes read it. It returns slurmctld's
// own words for a refusal: scontrol only knows that slurmctld refused.
func (r *Reloader) reconfigure(ctx context.Context, set *confset.Set, staged string) error {
	defer r.releaseJobs()
	if err := r.placeUnannounced(set, staged); err != nil {
		return err
	}
	since := time.Now().Truncate(time.Second)
	r.attempt.learn(func(f *facts) { f.since, f.addresses = since, nil })
	ctx, cancel := context.WithTimeout(ctx, conf.TakeLimit)
	defer cancel()
	err := r.Client.Reconfigure(ctx)
	if errors.Is(err, slurm.ErrUnreachable) {
		return r.unanswered(ctx, err)
	}
	if err == nil {
		return nil
	}
	if words := r.Fatal(since); words != "" {
		conf, _ := slurmconf.Read(slurmconf.Dir(r.liveSet.Current()))
		return errors.New(probableLine(conf, set, words) + "slurmctld: " + set.Named(r.liveSet.Current(), words))
	}
	return wordless(err, r.attempt.known().changes)
}

// placeUnannounced makes a set the live one, of which nobody knows yet whether it is good.
func (r *Reloader) placeUnannounced(set *confset.Set, staged string) error {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	if err := r.place(set, staged); err != nil {
		return err
	}
	r.Feed.Hold()
	return nil
}

// keep writes the last good set to where the next container finds it. It takes the one that
// is good by now, so that the later of two writers never has the older set.
func (r *Reloader) keep() {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	err := os.MkdirAll(r.StateDir, 0o755)
	var dir string
	if err == nil {
		dir, err = r.goodSet.Stage(r.seen.Load().state.Conf.Good, nil)
	}
	if err == nil {
		err = r.goodSet.Swap(dir)
	}
	what := ""
	if err != nil {
		what = fmt.Sprintf("cannot keep the last good configuration: %v", err)
		r.Log(slog.LevelWarn, what+"; a container that starts during a bad edit will not come up")
	}
	r.unkept.Store(&what)
}
