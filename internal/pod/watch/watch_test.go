package watch

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func write(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o644))
}

// running runs a Watcher of a directory until the test's end.
func running(t *testing.T, o Options) (w *Watcher, dir string) {
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	o.Done, dir = done, t.TempDir()
	require.Eventually(t, func() bool { // what else runs on the machine may hold all instances for a while
		w = New(o)
		return w.Add(dir) == nil
	}, time.Minute, 50*time.Millisecond, "sysctl fs.inotify.max_user_instances")
	go w.Run()
	return w, dir
}

// TestConcerns: of two files only one is of interest.
func TestConcerns(t *testing.T) {
	changed := make(chan string, 9)
	var last string
	_, dir := running(t, Options{
		Calm:     For(time.Millisecond),
		Concerns: func(e fsnotify.Event) bool { last = filepath.Base(e.Name); return last == "a" },
		Changed:  func() { changed <- last },
	})
	write(t, filepath.Join(dir, "b"))
	write(t, filepath.Join(dir, "a"))
	require.Equal(t, "a", <-changed)
}

// TestLost: the kernel's queue is full, and what it has dropped counts as a change.
func TestLost(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	require.NoError(t, err)
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	lost, changed := make(chan error, 9), make(chan struct{}, 9)
	w, dir := running(t, Options{
		Calm:     For(time.Millisecond),
		Concerns: func(fsnotify.Event) bool { return false },
		Lost:     func(err error) { lost <- err },
		Changed:  func() { changed <- struct{}{} },
		Open:     fsnotify.NewWatcher,
	})
	files := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	write(t, files[0])
	write(t, files[1])
	w.files.pathsLock.Lock()  // nobody takes fsnotify's events
	for i := range 2 * most { // fsnotify has read some thousand of them already
		require.NoError(t, os.Chmod(files[i%2], 0o600)) // the kernel merges events that are the same
	}
	w.files.pathsLock.Unlock()
	require.ErrorIs(t, <-lost, fsnotify.ErrEventOverflow)
	<-changed
}

// TestCalm: changes without a pause are one, and a timer takes the kernel's place.
func TestCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		began, changes := time.Now(), []time.Duration{}
		w := New(Options{
			Done: done, Calm: For(time.Second),
			Changed: func() { changes = append(changes, time.Since(began)) },
			Open:    func() (*fsnotify.Watcher, error) { return nil, unix.EMFILE },
		})
		require.ErrorIs(t, w.Add(t.TempDir()), unix.EMFILE)
		w.Remove("/") // is no fault
		w.Tick(Every)
		go w.Run()
		for range 3 {
			w.Look()
			<-time.After(time.Second / 2)
		}
		<-time.After(2*Every - time.Second)
		synctest.Wait()
		assert.Equal(t, []time.Duration{2 * time.Second, Every + time.Second}, changes)
		close(done)
		assert.False(t, w.Do(func() {}))
	})
}

// TestOneInstance: all Watchers of a process cost one inotify instance, while there are any.
func TestOneInstance(t *testing.T) {
	require.Eventually(t, func() bool { // the Watchers of other tests have ended, and the kernel has closed their instance
		shared.mu.Lock()
		defer shared.mu.Unlock()
		return shared.files == nil && instances(t) == 0
	}, time.Minute, time.Millisecond)
	dir, other := t.TempDir(), t.TempDir()
	type one struct {
		*Watcher
		done    chan struct{}
		ended   chan struct{}
		changed chan struct{}
	}
	begin := func(paths ...string) one {
		o := one{done: make(chan struct{}), ended: make(chan struct{}), changed: make(chan struct{}, 9)}
		o.Watcher = New(Options{Done: o.done, Calm: For(time.Millisecond), Changed: func() { o.changed <- struct{}{} }})
		for _, path := range paths {
			require.NoError(t, o.Add(path))
		}
		go func() { o.Run(); close(o.ended) }()
		return o
	}
	end := func(o one) { close(o.done); <-o.ended }

	first, second, third := begin(dir), begin(dir, other), begin(other+"/")
	assert.Equal(t, 1, instances(t))
	write(t, filepath.Join(dir, "a"))
	<-first.changed
	<-second.changed
	assert.Empty(t, third.changed)

	end(first)
	write(t, filepath.Join(dir, "b"))
	<-second.changed
	require.NoError(t, os.RemoveAll(other))
	<-second.changed
	<-third.changed
	require.NoError(t, os.Mkdir(other, 0o755))
	require.NoError(t, third.Add(other))
	write(t, filepath.Join(other, "a"))
	<-third.changed

	end(second)
	end(third)
	require.Eventually(t, func() bool { return instances(t) == 0 }, time.Minute, time.Millisecond, "the last Watcher's end is the instance's")
	fourth := begin(other)
	write(t, filepath.Join(other, "b"))
	<-fourth.changed
	end(fourth)
}

// instances counts this process's inotify instances.
func instances(t *testing.T) (n int) {
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.Contains(to, "inotify") {
			n++
		}
	}
	return n
}

func TestMailboxThatIsFull(t *testing.T) {
	m := mailbox{wake: make(chan struct{}, 1)}
	for i := range mostMail + 1 {
		m.put(fsnotify.Event{Name: strconv.Itoa(i)})
		m.put(fsnotify.Event{Name: strconv.Itoa(i)})
	}
	_, err := m.take()
	assert.ErrorIs(t, err, fsnotify.ErrEventOverflow)
	_, err = m.take()
	assert.NoError(t, err)
}
