package copies

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/watch"
)

// project writes files as the kubelet does: links through ..data, which is swapped.
func project(t *testing.T, dir, version string, files map[string]string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, version), 0o755))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, version, name), []byte(text), 0o644))
	}
	require.NoError(t, os.Symlink(version, filepath.Join(dir, "..tmp")))
	require.NoError(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	for name := range files {
		_ = os.Symlink("..data/"+name, filepath.Join(dir, name))
	}
}

func newDir(t *testing.T, mode fs.FileMode) Dir {
	from := t.TempDir()
	require.NoError(t, os.Chmod(from, 0o777)) // as a ConfigMap's is
	return Dir{From: from, To: filepath.Join(t.TempDir(), "copy"), Mode: mode, UID: os.Getuid(), GID: os.Getgid()}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[e.Name()] = string(text)
	}
	return out
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	return info.Mode()
}

func TestSync(t *testing.T) {
	d := newDir(t, 0o600)
	project(t, d.From, "..1", map[string]string{"a": "1", "b": "1"})
	changed, err := d.Sync()
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"a", "b"}, changed)
	assert.Equal(t, map[string]string{"a": "1", "b": "1"}, contents(t, d.To))
	assert.Equal(t, fs.FileMode(0o600), modeOf(t, filepath.Join(d.To, "a")), "a file, and no link")
	assert.Equal(t, fs.ModeDir|0o700, modeOf(t, d.To))

	changed, err = d.Sync()
	require.NoError(t, err)
	assert.Empty(t, changed)

	project(t, d.From, "..2", map[string]string{"b": "2"})
	changed, err = d.Sync()
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"a", "b"}, changed)
	assert.Equal(t, map[string]string{"b": "2"}, contents(t, d.To))
}

func TestSyncOfPlainFiles(t *testing.T) {
	d := newDir(t, 0o644)
	d.Wanted = func(name string) bool { return name != "not" }
	for _, name := range []string{"a", "not", ".hidden"} {
		require.NoError(t, os.WriteFile(filepath.Join(d.From, name), []byte("1"), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(d.From, "dir"), 0o755))
	_, err := d.Sync()
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "1"}, contents(t, d.To))
	assert.Equal(t, fs.ModeDir|0o755, modeOf(t, d.To))
	assert.Equal(t, fs.FileMode(0o644), modeOf(t, filepath.Join(d.To, "a")))
}

// TestSyncKeepsTheLast: what cannot be read does not become "deleted".
func TestSyncKeepsTheLast(t *testing.T) {
	d := newDir(t, 0o600)
	path := filepath.Join(d.From, "a")
	require.NoError(t, os.WriteFile(path, []byte("1"), 0o600))
	_, err := d.Sync()
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", maxSize+1)), 0o600))
	_, err = d.Sync()
	require.ErrorContains(t, err, "more than 1048576 bytes")
	require.NoError(t, os.RemoveAll(d.From))
	_, err = d.Sync()
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.Equal(t, map[string]string{"a": "1"}, contents(t, d.To))
}

// TestSyncChecks: what is refused is not even copied in part.
func TestSyncChecks(t *testing.T) {
	d := newDir(t, 0o600)
	d.Check = func(files map[string][]byte) error {
		if string(files["a"]) == "bad" {
			return errors.New("no")
		}
		return nil
	}
	project(t, d.From, "..1", map[string]string{"a": "1", "b": "1"})
	_, err := d.Sync()
	require.NoError(t, err)
	project(t, d.From, "..2", map[string]string{"a": "bad", "b": "2"})
	_, err = d.Sync()
	require.EqualError(t, err, "no")
	assert.Equal(t, map[string]string{"a": "1", "b": "1"}, contents(t, d.To))
}

// TestWatch: each change is copied and reported, with the kernel's reports and without.
func TestWatch(t *testing.T) {
	follow := func(t *testing.T, d Dir, o watch.Options) {
		done, reported := make(chan struct{}), make(chan []string, 9)
		defer close(done)
		o.Done = done
		go d.watch(o, func(changed []string, err error) {
			assert.NoError(t, err)
			reported <- changed
		})
		for version := range 2 {
			require.Equal(t, []string{"a"}, <-reported)
			project(t, d.From, fmt.Sprintf("..%d", version+2), map[string]string{"a": fmt.Sprint(version + 2)})
		}
		require.Equal(t, []string{"a"}, <-reported)
	}
	d := newDir(t, 0o600)
	project(t, d.From, "..1", map[string]string{"a": "1"})
	follow(t, d, watch.Options{})

	require.NoError(t, os.RemoveAll(d.To))
	synctest.Test(t, func(t *testing.T) { // a minute costs no time in a bubble
		follow(t, d, watch.Options{Open: func() (*fsnotify.Watcher, error) { return nil, unix.EMFILE }})
	})
	require.ErrorIs(t, Dir{From: filepath.Join(t.TempDir(), "none")}.Watch(nil, nil), fs.ErrNotExist)
}

// TestOwnerPutsOtherThingsInPlace: the copy is its owner's, who can remove what is in it.
func TestOwnerPutsOtherThingsInPlace(t *testing.T) {
	d := newDir(t, 0o600)
	project(t, d.From, "..1", map[string]string{"a": "1", "b": "1"})
	_, err := d.Sync()
	require.NoError(t, err)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, os.WriteFile(elsewhere, []byte("1"), 0o600))
	for _, name := range []string{"a", "b"} {
		require.NoError(t, os.Remove(filepath.Join(d.To, name)))
	}
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(d.To, "a")))
	require.NoError(t, unix.Mkfifo(filepath.Join(d.To, "b"), 0o600))
	changed, err := d.Sync()
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"a", "b"}, changed)
	assert.Equal(t, map[string]string{"a": "1", "b": "1"}, contents(t, d.To))
	assert.Zero(t, modeOf(t, filepath.Join(d.To, "a")).Type(), "a file, and no link")
	text, err := os.ReadFile(elsewhere)
	require.NoError(t, err)
	assert.Equal(t, "1", string(text))
}
