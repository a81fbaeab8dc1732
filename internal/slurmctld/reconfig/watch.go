package reconfig

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/pod/watch"
)

// Debounce is how long the sources have to stay as they are before they are read: an
// edit is often more than one change.
const Debounce = 100 * time.Millisecond

// watcher watches the sources. A ConfigMap's volume reports an edit in its directory, by a
// new ..data.
type watcher struct {
	*watch.Watcher
	sources []string
	// inside are the directories with the sources' files in them, watched are those
	// and the sources' parents.
	inside, watched []string
}

// Watch reads the sources once when it begins and after each edit, until ctx ends.
func (r *Reloader) Watch(ctx context.Context, post func(lifecycle.Event)) {
	w := &watcher{sources: r.Sources}
	var calm *time.Timer
	w.Watcher = watch.New(watch.Options{
		Done: ctx.Done(),
		Calm: watch.For(Debounce),
		Concerns: func(e fsnotify.Event) bool {
			concerns := w.concerns(e.Name)
			if concerns {
				r.prefetch(ctx)
				calm.Reset(precheckCalm)
			}
			return concerns
		},
		Lost: func(err error) {
			r.Log(slog.LevelWarn, "the kernel has lost changes of the configuration; the agent reads it", slog.Any("error", err))
		},
		Changed: func() {
			_ = w.add() // a directory that vanishes meanwhile has an event of its own
			r.read(post)
		},
	})
	calm = time.AfterFunc(precheckCalm, func() { w.Do(func() { r.checkEarly(ctx) }) })
	if err := w.add(); err != nil {
		r.Log(slog.LevelWarn, "the kernel cannot report edits: the agent reads the configuration every "+
			watch.Every.String(), slog.Any("error", err))
		w.Tick(watch.Every)
	}
	w.Look() // an edit between the first read and the watch has no event
	w.Run()
}

// add watches what is there now, and the sources' parents: a directory that
// vanishes may come back.
func (w *watcher) add() error {
	w.inside = nil
	var now []string
	for _, source := range w.sources {
		now = append(now, filepath.Dir(source))
		dirs, _ := confset.Dirs(source) // Read reports what is missing
		w.inside = append(w.inside, dirs...)
	}
	now = append(now, w.inside...)
	for _, dir := range w.watched {
		if !slices.Contains(now, dir) {
			w.Remove(dir)
		}
	}
	w.watched = now
	for _, dir := range now {
		if err := w.Add(dir); err != nil {
			return err
		}
	}
	return nil
}

// concerns: in a parent, only the source itself is.
func (w *watcher) concerns(path string) bool {
	return slices.Contains(w.inside, filepath.Dir(path)) || slices.Contains(w.sources, path)
}

// checkEarly checks what the sources hold now, if an edit would be checked at once.
func (r *Reloader) checkEarly(ctx context.Context) {
	now := r.seen.Load()
	if !now.idle() {
		return
	}
	set, err := r.readSources()
	if err != nil || set.Same(now.state.Conf.Live) {
		return // the edit may not be complete
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &precheck{began: time.Now(), place: r.livePlace(), set: set, cancel: cancel, over: make(chan struct{})}
	if former := r.prechecked.Swap(p); former != nil {
		go r.dismiss(former)
	}
	go func() {
		defer close(p.over)
		p.inspection, p.err = r.checkSet(ctx, set, true)
	}()
	time.AfterFunc(headStart, func() {
		if r.prechecked.CompareAndSwap(p, nil) {
			r.dismiss(p)
		}
	})
}

// takePrecheck returns what a precheck of this set found, and false if none
// counts. A refusal does not count: the sources may have changed while they were prechecked.
func (r *Reloader) takePrecheck(set *confset.Set) (inspection, bool) {
	p := r.prechecked.Swap(nil)
	if p == nil {
		return inspection{}, false
	}
	if p.set.Same(set) && p.place == r.livePlace() && time.Since(p.began) < headStart {
		if <-p.over; p.err == nil {
			return p.inspection, true
		}
	}
	r.dismiss(p)
	return inspection{}, false
}

// dismiss ends a precheck, and leaves nothing of its set.
func (r *Reloader) dismiss(p *precheck) {
	p.cancel()
	<-p.over
	if p.staged != "" {
		r.liveSet.Drop(p.staged)
	}
}
