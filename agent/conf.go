package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// conf is what the agent does with slurmctld's configuration, besides judging
// (step_reload.go): it reads the sources, and puts sets in place.
type conf struct {
	sources []string
	// live is what the daemon reads, good what the next container can fall back on.
	live, good confset.Store
	feed       feed
	tickets    atomic.Int64
	judged     bell

	// since is when slurmctld was told to reconfigure last, starts which slurmd each
	// node had before that has to follow, nil if nobody knows; addresses are of those that
	// had not followed when slurmctld was asked last. Only the goroutines of one reload after
	// the other use them.
	since     time.Time
	starts    map[string]time.Time
	addresses map[string]string
	// departure is of the set that was checked last. They alone use it, too.
	departure departure
	// ahead is what was noted when an edit began, rehearsed what was checked of it; nil
	// when they were used.
	ahead     atomic.Pointer[noting]
	rehearsed atomic.Pointer[rehearsal]
	// holding: jobs are not started until the reconfigure is over.
	holding atomic.Bool
	// staging is held while a set is written, trying while one is tried: a rehearsal's
	// may be at any time.
	staging, trying sync.Mutex

	keepLock sync.Mutex
	toKeep   atomic.Pointer[confset.Set]
	// unkept is why the last good set could not be kept, empty when it was.
	unkept atomic.Pointer[string]
	// last is the last edit that was taken; only the owner knows.
	last *ReloadStatus
	// notes are on the live configuration; announcing is held while it is read.
	notes      atomic.Pointer[confNotes]
	announcing sync.Mutex
	build      atomic.Pointer[build]
}

// placedConf is what slurmctld and its agent's scontrol read: the set in place,
// while the sources may hold what is not good.
func (c Config) placedConf() string { return filepath.Join(c.RunDir, "conf", confset.Main) }

// openConf reads what slurmctld can be started with.
func (a *Agent) openConf() {
	uid, gid := a.daemon.uid(), a.daemon.gid()
	a.conf.sources = a.Config.ConfSources
	a.conf.live = confset.Store{Dir: a.Config.RunDir, Name: "conf", UID: uid, GID: gid}
	a.conf.good = confset.Store{Dir: a.Config.StateDir, Sub: "slurmlet", Name: "conf", UID: uid, GID: gid, Lasting: true}
	_ = os.RemoveAll(a.Config.trialDir()) // what a crash has left of it
	// slurmctld makes its directory, and not the one above; it tells what cannot be made.
	if os.Mkdir(a.Config.StateDir, 0o755) == nil {
		_ = os.Lchown(a.Config.StateDir, uid, gid)
	}
	first := a.readSources()
	good, err := a.conf.good.Load()
	if err != nil {
		a.tell(slog.LevelWarn, "there is no good configuration to fall back on", slog.Any("error", err))
	}
	if good != nil {
		good = good.WithKeys(confset.ReadKeys(a.conf.sources))
	}
	a.life.good, a.life.next = good, &first
}

func (a *Agent) readSources() edition {
	set, err := confset.Read(a.conf.sources)
	err = errors.Join(a.takeKeys(), err)
	return edition{set: set, err: err, at: time.Now()}
}

// performReload does one action of a reload. All of them take their time.
func (a *Agent) performReload(act action) bool {
	switch act := act.(type) {
	case check:
		go func() {
			a.releaseJobs() // an edit that was overtaken held them
			i, err := a.checkEdition(act.set)
			a.post(checked{act.number, i.staged, i.changes, i.anew, err})
		}()
	case checkFirst:
		go func() {
			i, err := a.checkFirst(act.set, act.good)
			a.post(checked{act.number, i.staged, i.changes, i.anew, err})
		}()
	case awaitLaunches:
		go func() {
			a.awaitLaunches(act.limit, a.conf.starts != nil, a.noteBefore) // a slurmd may have been started meanwhile
			err := a.departs(a.conf.departure)                             // and jobs may have come
			if err != nil {
				a.releaseJobs()
			}
			a.post(launchesOver{act.number, err})
		}()
	case place:
		go func() { a.post(placeEnded{act.number, a.place(act.set, act.staged)}) }()
	case reconfigure:
		go func() {
			err := a.reconfigure(act.set, act.staged)
			a.releaseJobs()
			a.post(reconfigureEnded{act.number, err})
		}()
	case askNodes:
		go func() {
			a.urge(act.urge)
			<-time.After(act.after)
			a.post(a.nodesTook(act.number, canaryOf(act.urge)))
		}()
	case keep:
		a.conf.toKeep.Store(act.set)
		go a.keepGood()
	case armReload:
		time.AfterFunc(act.after, func() { a.post(reloadTimer{act.number}) })
	default:
		return false
	}
	return true
}

func (a *Agent) place(set *confset.Set, staged string) error {
	if staged == "" {
		var err error
		if staged, err = a.stage(set); err != nil {
			return err
		}
	}
	return a.conf.live.Swap(staged)
}

// reconfigure returns slurmctld's own words for a refusal: scontrol knows no
// more than that there was one.
func (a *Agent) reconfigure(set *confset.Set, staged string) error {
	if err := a.place(set, staged); err != nil {
		return err
	}
	a.conf.feed.hold()
	a.conf.addresses = nil
	a.conf.since = time.Now().Truncate(time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), takeLimit)
	defer cancel()
	err := a.client.Reconfigure(ctx)
	if err == nil || errors.Is(err, slurm.ErrUnreachable) {
		return err
	}
	a.output.Flush()
	if last := a.lastFatal.Load(); last != nil && !last.At.Before(a.conf.since) {
		conf, _ := slurmconf.Read(slurmconf.Dir(a.conf.live.Current()))
		return errors.New(where(conf, set, last.Text) + "slurmctld: " + set.Named(a.conf.live.Current(), last.Text))
	}
	return err
}

// keepGood writes the last good set to where the next container finds it. When
// several are waiting, the last one wins.
func (a *Agent) keepGood() {
	a.conf.keepLock.Lock()
	defer a.conf.keepLock.Unlock()
	set := a.conf.toKeep.Swap(nil)
	if set == nil {
		return
	}
	err := os.MkdirAll(a.Config.StateDir, 0o755)
	var dir string
	if err == nil {
		dir, err = a.conf.good.Stage(set, nil)
	}
	if err == nil {
		err = a.conf.good.Swap(dir)
	}
	what := ""
	if err != nil {
		what = fmt.Sprintf("cannot keep the last good configuration: %v", err)
		a.tell(slog.LevelWarn, what+"; a container that starts during a bad edit will not come up")
	}
	a.conf.unkept.Store(&what)
}

// announce tells the nodes' agents of a configuration that is live and stays,
// and the log what there is to say about it.
func (a *Agent) announce(set *confset.Set) {
	dir, err := filepath.EvalSymlinks(a.conf.live.Current())
	if err != nil {
		return // it is told where it is put in place
	}
	go func() {
		a.conf.announcing.Lock()
		defer a.conf.announcing.Unlock()
		files, nodes := served(dir)
		a.conf.feed.announce(newManifest(files), nodes)
		a.note(set, dir)
	}()
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
