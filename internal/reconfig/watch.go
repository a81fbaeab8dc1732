package reconfig

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/watch"
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

// Watch calls read once when it begins and after each edit, until ctx ends.
func (r *Reloader) Watch(ctx context.Context, read func()) {
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
			read()
		},
	})
	calm = time.AfterFunc(precheckCalm, func() { w.Do(func() { r.precheck(ctx) }) })
	if err := w.add(); err != nil {
		r.Log(slog.LevelWarn, "the kernel cannot tell of an edit: the configuration is read every "+watch.Every.String(), slog.Any("error", err))
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
