package watch

import (
	"path/filepath"
	"slices"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// shared is the inotify instance of all Watchers of the process. Linux gives 128 instances to all processes of a user
// on a machine (fs.inotify.max_user_instances), the kubelet's and containerd's among them.
var shared = &instance{open: fsnotify.NewWatcher}

// instance passes each event on to the Watchers of its path. It is open while there are paths.
type instance struct {
	open func() (*fsnotify.Watcher, error)

	mu    sync.Mutex // held while files changes
	files *fsnotify.Watcher

	// paths has a lock of its own: fsnotify may hold back Add until an event was delivered.
	pathsLock sync.Mutex
	paths     map[string][]*Watcher
}

func (i *instance) add(w *Watcher, path string) error {
	path = filepath.Clean(path)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.files == nil {
		files, err := i.open()
		if err != nil {
			return err
		}
		i.files = files
		go i.read(files)
	}
	known := i.enter(w, path) // before the first event can come
	err := i.files.Add(path)
	if err != nil && !known {
		i.leave(w, path)
	}
	return err
}

func (i *instance) remove(w *Watcher, path string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.leave(w, filepath.Clean(path))
}

// removeAll ends everything that a Watcher watches.
func (i *instance) removeAll(w *Watcher) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, path := range i.of(w) {
		i.leave(w, path)
	}
}

func (i *instance) enter(w *Watcher, path string) (known bool) {
	i.pathsLock.Lock()
	defer i.pathsLock.Unlock()
	if slices.Contains(i.paths[path], w) {
		return true
	}
	if i.paths == nil {
		i.paths = map[string][]*Watcher{}
	}
	i.paths[path] = append(i.paths[path], w)
	return false
}

func (i *instance) of(w *Watcher) (paths []string) {
	i.pathsLock.Lock()
	defer i.pathsLock.Unlock()
	for path, watchers := range i.paths {
		if slices.Contains(watchers, w) {
			paths = append(paths, path)
		}
	}
	return paths
}

// leave ends a path that nobody else watches, and the instance with the last path. The caller holds mu.
func (i *instance) leave(w *Watcher, path string) {
	i.pathsLock.Lock()
	rest := slices.DeleteFunc(i.paths[path], func(one *Watcher) bool { return one == w })
	if len(rest) > 0 {
		i.paths[path] = rest
	} else {
		delete(i.paths, path)
	}
	left := len(i.paths)
	i.pathsLock.Unlock()
	if i.files == nil {
		return
	}
	if len(rest) == 0 {
		_ = i.files.Remove(path) // the kernel has removed it, most likely
	}
	if left == 0 {
		_ = i.files.Close()
		i.files = nil
	}
}

func (i *instance) read(files *fsnotify.Watcher) {
	for {
		select {
		case e, open := <-files.Events:
			if !open {
				return
			}
			i.deliver(e)
		case err, open := <-files.Errors:
			if !open {
				return
			}
			i.fail(err)
		}
	}
}

func (i *instance) deliver(e fsnotify.Event) {
	i.pathsLock.Lock()
	defer i.pathsLock.Unlock()
	for _, path := range []string{e.Name, filepath.Dir(e.Name)} {
		for _, w := range i.paths[path] {
			w.mail.put(e)
		}
	}
}

func (i *instance) fail(err error) {
	i.pathsLock.Lock()
	defer i.pathsLock.Unlock()
	for _, watchers := range i.paths {
		for _, w := range watchers {
			w.mail.fail(err)
		}
	}
}

// mailbox holds what a Watcher has still to look at, so that one that is busy does not keep the others waiting.
type mailbox struct {
	mu     sync.Mutex
	events []fsnotify.Event
	err    error
	wake   chan struct{}
}

// mostMail is how many different events a mailbox holds. One more, and they count as dropped.
const mostMail = 1000

func (m *mailbox) put(e fsnotify.Event) {
	m.mu.Lock()
	switch {
	case slices.Contains(m.events, e):
	case len(m.events) == mostMail:
		m.events, m.err = nil, fsnotify.ErrEventOverflow
	default:
		m.events = append(m.events, e)
	}
	m.mu.Unlock()
	m.ring()
}

func (m *mailbox) fail(err error) {
	m.mu.Lock()
	m.err = err
	m.mu.Unlock()
	m.ring()
}

func (m *mailbox) ring() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() ([]fsnotify.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	events, err := m.events, m.err
	m.events, m.err = nil, nil
	return events, err
}
