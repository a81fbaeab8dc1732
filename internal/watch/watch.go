// Package watch runs a function once files have changed and have been left alone for a while.
// The kernel reports the changes (inotify). Where it cannot, a timer takes its place.
package watch

import (
	"time"

	"github.com/fsnotify/fsnotify"
)

// Every is how often a Watcher without the kernel's reports looks at its files. Those end at
// fs.inotify.max_user_instances and fs.inotify.max_user_watches.
const Every = time.Minute

// Options are all that sets one Watcher apart from another.
type Options struct {
	// Done ends Run.
	Done <-chan struct{}
	// Calm is how long the files must be left alone: one edit makes several changes.
	Calm func() time.Duration
	// Changed runs after that time.
	Changed func()
	// Concerns picks the events that are changes; nil: all of them are.
	Concerns func(fsnotify.Event) bool
	// Lost runs when the kernel has dropped events. That counts as a change, too.
	Lost func(error)
	// Open is fsnotify.NewWatcher but in tests.
	Open func() (*fsnotify.Watcher, error)
}

// Watcher watches files and directories. Run calls all functions of the Options on one
// goroutine.
type Watcher struct {
	Options
	files *fsnotify.Watcher // nil where the kernel has no inotify instance left
	err   error             // says why
	due   *time.Timer
	ticks <-chan time.Time
	calls chan func()
}

// New makes a Watcher of nothing yet. Add reports that inotify is not available.
func New(o Options) *Watcher {
	if o.Open == nil {
		o.Open = fsnotify.NewWatcher
	}
	w := &Watcher{Options: o, due: time.NewTimer(time.Hour), calls: make(chan func())}
	w.due.Stop()
	w.files, w.err = o.Open()
	return w
}

// For is a Calm that is always the same.
func For(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// Add watches a file or a directory.
func (w *Watcher) Add(path string) error {
	if w.err != nil {
		return w.err
	}
	return w.files.Add(path)
}

// Remove stops watching a path.
func (w *Watcher) Remove(path string) {
	if w.err == nil {
		_ = w.files.Remove(path) // the kernel has removed it, most likely
	}
}

// Look treats the files as changed.
func (w *Watcher) Look() { w.due.Reset(w.Calm()) }

// Tick looks at the files from time to time, too. It is called before Run, or by a function
// that Run calls.
func (w *Watcher) Tick(every time.Duration) { w.ticks = time.Tick(every) }

// Do runs f on Run's goroutine. It returns false after the end.
func (w *Watcher) Do(f func()) bool {
	select {
	case w.calls <- f:
		return true
	case <-w.Done:
		return false
	}
}

// Run watches until Done.
func (w *Watcher) Run() {
	var events <-chan fsnotify.Event
	var faults <-chan error
	if w.err == nil {
		defer w.files.Close()
		events, faults = w.files.Events, w.files.Errors
	}
	for {
		select {
		case <-w.Done:
			return
		case e := <-events:
			if w.Concerns == nil || w.Concerns(e) {
				w.Look()
			}
		case err := <-faults:
			if w.Lost != nil {
				w.Lost(err)
			}
			w.Look()
		case <-w.ticks:
			w.Look()
		case f := <-w.calls:
			f()
		case <-w.due.C:
			w.Changed()
		}
	}
}
