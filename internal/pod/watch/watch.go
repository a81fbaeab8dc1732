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
	// Open gives a test's Watcher an inotify instance of its own. All others share one.
	Open func() (*fsnotify.Watcher, error)
}

// Watcher watches files and directories. Run calls all functions of the Options on one
// goroutine.
type Watcher struct {
	Options
	files *instance
	mail  mailbox
	due   *time.Timer
	ticks <-chan time.Time
	calls chan func()
}

// New makes a Watcher of nothing yet.
func New(o Options) *Watcher {
	w := &Watcher{
		Options: o, files: shared, mail: mailbox{wake: make(chan struct{}, 1)},
		due: time.NewTimer(time.Hour), calls: make(chan func()),
	}
	w.due.Stop()
	if o.Open != nil {
		w.files = &instance{open: o.Open}
	}
	return w
}

// For is a Calm that is always the same.
func For(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// Add watches a file or a directory. It fails where inotify is not available.
func (w *Watcher) Add(path string) error { return w.files.add(w, path) }

// Remove stops watching a path.
func (w *Watcher) Remove(path string) { w.files.remove(w, path) }

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
	defer w.files.removeAll(w)
	for {
		select {
		case <-w.Done:
			return
		case <-w.mail.wake:
			w.heed(w.mail.take())
		case <-w.ticks:
			w.Look()
		case f := <-w.calls:
			f()
		case <-w.due.C:
			w.Changed()
		}
	}
}

func (w *Watcher) heed(events []fsnotify.Event, lost error) {
	for _, e := range events {
		if w.Concerns == nil || w.Concerns(e) {
			w.Look()
		}
	}
	if lost == nil {
		return
	}
	if w.Lost != nil {
		w.Lost(lost)
	}
	w.Look()
}
