package agent

import (
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/slurmlet/slurmlet/internal/confset"
)

// Debounce is how long the sources have to stay as they are before they are read: an
// edit is often more than one change.
const Debounce = calm

// sourceWatcher turns changes of the configuration's sources into editions. A
// ConfigMap's volume tells of them in its directory, by a new ..data.
type sourceWatcher struct {
	agent *Agent
	files *fsnotify.Watcher
	// inside are the directories with the sources' files in them, watched those
	// and the sources' parents.
	inside, watched []string
}

// watchSources watches until the agent's end.
func (a *Agent) watchSources() {
	w := &sourceWatcher{agent: a}
	var err error
	var slow <-chan time.Time
	if w.files, err = fsnotify.NewWatcher(); err == nil {
		defer w.files.Close()
		err = w.add()
	}
	if err != nil {
		a.tell(slog.LevelWarn, "the kernel cannot tell of an edit: the configuration is looked at every "+lookEvery.String(), slog.Any("error", err))
		slow = time.Tick(lookEvery)
	}
	w.run(slow)
}

// add watches what is there now, and the sources' parents: a directory that
// vanishes may come back.
func (w *sourceWatcher) add() error {
	w.inside = nil
	var now []string
	for _, source := range w.agent.conf.sources {
		now = append(now, filepath.Dir(source))
		dirs, _ := confset.Dirs(source) // what is missing is told by whoever reads it
		w.inside = append(w.inside, dirs...)
	}
	now = append(now, w.inside...)
	for _, dir := range w.watched {
		if !slices.Contains(now, dir) {
			_ = w.files.Remove(dir) // gone, most likely
		}
	}
	w.watched = now
	for _, dir := range now {
		if err := w.files.Add(dir); err != nil {
			return err
		}
	}
	return nil
}

func (w *sourceWatcher) run(slow <-chan time.Time) {
	var events <-chan fsnotify.Event
	var faults <-chan error
	if w.files != nil {
		events, faults = w.files.Events, w.files.Errors
	}
	changed := time.NewTimer(Debounce) // what was missed between the first read and the watch
	calmed := time.NewTimer(rehearsalCalm)
	for {
		select {
		case <-w.agent.over:
			return
		case e := <-events:
			if w.concerns(e.Name) {
				w.agent.foresee()
				calmed.Reset(rehearsalCalm)
				changed.Reset(Debounce)
			}
		case err := <-faults:
			w.agent.tell(slog.LevelWarn, "lost changes of the configuration; reading it", slog.Any("error", err))
			changed.Reset(Debounce)
		case <-slow:
			changed.Reset(Debounce)
		case <-calmed.C:
			w.agent.rehearse()
		case <-changed.C:
			if w.files != nil {
				_ = w.add() // a directory that vanishes meanwhile has an event of its own
			}
			w.agent.post(w.agent.readSources())
		}
	}
}

// concerns: in a parent, only the source itself.
func (w *sourceWatcher) concerns(path string) bool {
	return slices.Contains(w.inside, filepath.Dir(path)) || slices.Contains(w.agent.conf.sources, path)
}
