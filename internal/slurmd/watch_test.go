package slurmd

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/pod/watch"
	"github.com/slurmlet/slurmlet/internal/slurmd/cgroups"
	"github.com/slurmlet/slurmlet/internal/slurmd/jobs"
	"github.com/slurmlet/slurmlet/internal/slurmd/machine"
	"github.com/slurmlet/slurmlet/internal/slurmd/spool"
	"github.com/slurmlet/slurmlet/internal/slurmd/userfiles"
)

// watched is a pod that is watched, with the events and notices that come of it.
type watched struct {
	*watcher
	events  chan lifecycle.Event
	done    chan struct{}
	notices []notice
}

type notice struct {
	level slog.Level
	text  string
}

// watching runs a watcher without inotify, in a bubble of synctest.
func watching(t *testing.T) *watched {
	root := t.TempDir()
	w := &watched{events: make(chan lifecycle.Event, 16), done: make(chan struct{})}
	require.NoError(t, os.Mkdir(filepath.Join(root, "spool"), 0o755))
	n := &Node{
		Options: Options{
			Settings: Settings{Name: "n1"}, Root: root, Done: w.done, Post: func(e lifecycle.Event) { w.events <- e },
			Log: func(level slog.Level, text string, _ ...slog.Attr) {
				w.notices = append(w.notices, notice{level, text})
			},
		},
		subtree: &cgroups.Subtree{Machine: cgroup.NewFS(root)}, spool: spool.New(filepath.Join(root, "spool"), "n1"),
		requeuer: &jobs.Requeuer{Holders: &jobs.Holders{}}, userFiles: userfiles.New(userfiles.Options{}), machine: machine.New(machine.Options{}),
		spoolMade: make(chan struct{}, 1),
	}
	w.watcher = newWatcher(n, watch.Options{Open: func() (*fsnotify.Watcher, error) { return nil, unix.EMFILE }})
	go w.awaitSpool()
	go w.Run()
	return w
}

func (w *watched) socket(step string) string { return w.node.spool.Socket(step) }

// ended is how many events have said that steps have ended.
func (w *watched) ended() (ends int) {
	synctest.Wait()
	for len(w.events) > 0 {
		if _, is := (<-w.events).(node.StepsEnded); is {
			ends++
		}
	}
	return ends
}

// TestWithoutInotify: the ends of steps are found all the same.
func TestWithoutInotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t)
		listening(t, w.socket("3.0"))
		listening(t, w.socket("4.0"))
		w.node.IsReady() // slurmd's READY, and that of its successor
		synctest.Wait()
		w.node.IsReady()
		synctest.Wait()
		require.Len(t, w.notices, 1)
		assert.Equal(t, slog.LevelWarn, w.notices[0].level)
		assert.Equal(t, "the kernel cannot report the ends of steps: they are looked for every 1s", w.notices[0].text)

		<-time.After(10 * glanceEvery) // in a bubble it costs no time
		assert.Zero(t, w.ended(), "nothing has ended")
		require.NoError(t, os.Remove(w.socket("3.0")))
		listening(t, w.socket("5.0"))
		<-time.After(glanceEvery)
		assert.Equal(t, 1, w.ended(), "one has ended, though there are as many as before")
		<-time.After(10 * glanceEvery)
		assert.Zero(t, w.ended(), "it is told once")
		close(w.done)
	})
}

// TestLostEvents: what the kernel has dropped may have been a step's end.
func TestLostEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t)
		w.Do(func() { w.lost(fsnotify.ErrEventOverflow) })
		assert.Equal(t, 1, w.ended())
		assert.Len(t, w.notices, 1)
		close(w.done)
	})
}

func listening(t *testing.T, path string) {
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
}
