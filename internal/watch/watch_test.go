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
	})
	files := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	write(t, files[0])
	write(t, files[1])
	busy, full := make(chan struct{}), make(chan struct{})
	go w.Do(func() { close(busy); <-full })
	<-busy
	for i := range 2 * most { // fsnotify has read some thousand of them already
		require.NoError(t, os.Chmod(files[i%2], 0o600)) // the kernel merges events that are the same
	}
	close(full)
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
