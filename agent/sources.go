package agent

import (
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
const Debounce = calm

// sourceWatcher turns changes of the configuration's sources into editions. A
// ConfigMap's volume reports them in its directory, by a new ..data.
type sourceWatcher struct {
	*watch.Watcher
	sources []string
	// inside are the directories with the sources' files in them, watched those
	// and the sources' parents.
	inside, watched []string
}

// watchSources watches until the agent's end.
func (a *Agent) watchSources() {
	w := &sourceWatcher{sources: a.conf.sources}
	var rehearsal *time.Timer
	w.Watcher = watch.New(watch.Options{
		Done: a.over,
		Calm: watch.For(Debounce),
		Concerns: func(e fsnotify.Event) bool {
			concerns := w.concerns(e.Name)
			if concerns {
				a.foresee()
				rehearsal.Reset(rehearsalCalm)
			}
			return concerns
		},
		Lost: func(err error) {
			a.tell(slog.LevelWarn, "lost changes of the configuration; reading it", slog.Any("error", err))
		},
		Changed: func() {
			_ = w.add() // a directory that vanishes meanwhile has an event of its own
			a.post(a.readSources())
		},
	})
	rehearsal = time.AfterFunc(rehearsalCalm, func() { w.Do(a.rehearse) })
	if err := w.add(); err != nil {
		a.tell(slog.LevelWarn, "the kernel cannot tell of an edit: the configuration is looked at every "+watch.Every.String(), slog.Any("error", err))
		w.Tick(watch.Every)
	}
	w.Look() // an edit between the first read and the watch has no event
	w.Run()
}

// add watches what is there now, and the sources' parents: a directory that
// vanishes may come back.
func (w *sourceWatcher) add() error {
	w.inside = nil
	var now []string
	for _, source := range w.sources {
		now = append(now, filepath.Dir(source))
		dirs, _ := confset.Dirs(source) // whoever reads the sources reports what is missing
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
func (w *sourceWatcher) concerns(path string) bool {
	return slices.Contains(w.inside, filepath.Dir(path)) || slices.Contains(w.sources, path)
}
