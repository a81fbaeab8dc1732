package reconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/pod/watch"
)

// TestEditsLeaveNoWatches: each edit of a ConfigMap is a new directory, and the end of another.
func TestEditsLeaveNoWatches(t *testing.T) {
	source := t.TempDir()
	over := make(chan struct{})
	defer close(over)
	w := &watcher{sources: []string{source}}
	require.Eventually(t, func() bool { // what else runs on the machine may hold all instances for a while
		w.Watcher = watch.New(watch.Options{Done: over, Concerns: func(fsnotify.Event) bool { return false }})
		return w.Add(source) == nil
	}, time.Minute, 50*time.Millisecond, "sysctl fs.inotify.max_user_instances")
	go w.Run()
	edit := func(version int) {
		name := fmt.Sprintf("..%d", version)
		require.NoError(t, os.MkdirAll(filepath.Join(source, name, "sub"), 0o755))
		require.NoError(t, os.Symlink(name, filepath.Join(source, "..tmp")))
		require.NoError(t, os.Rename(filepath.Join(source, "..tmp"), filepath.Join(source, "..data")))
		require.NoError(t, os.RemoveAll(filepath.Join(source, fmt.Sprintf("..%d", version-1))))
		require.NoError(t, w.add())
	}
	edit(0)
	before := inotifyMarks(t)
	for version := range 300 {
		edit(version + 1)
	}
	require.Eventually(t, func() bool { return inotifyMarks(t) == before }, time.Minute, 10*time.Millisecond, "%d, not %d", inotifyMarks(t), before)
}

// inotifyMarks are the watches that this process has (proc_pid_fdinfo(5)).
func inotifyMarks(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fdinfo")
	require.NoError(t, err)
	marks := 0
	for _, e := range entries {
		text, _ := os.ReadFile(filepath.Join("/proc/self/fdinfo", e.Name())) // it may be closed by now
		marks += strings.Count(string(text), "inotify wd:")
	}
	return marks
}
