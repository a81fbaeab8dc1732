package agent

import (
	"log/slog"
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
	"github.com/slurmlet/slurmlet/internal/pod/watch"
)

// watched is an agent whose pod is watched, with the events and notices it gets.
type watched struct {
	*watcher
	notices []Notice
}

// watching runs a watcher without inotify, in a bubble of synctest.
func watching(t *testing.T) *watched {
	w := &watched{}
	a := &Agent{
		Options: Options{
			Root: t.TempDir(), Config: Config{NodeName: "n1", SpoolDir: "/spool"},
			Observe: func(n Notice) { w.notices = append(w.notices, n) },
		},
		events: make(chan lifecycle.Event, 16), over: make(chan struct{}), spoolMade: make(chan struct{}, 1),
	}
	a.machine = cgroup.NewFS(a.Root)
	require.NoError(t, os.Mkdir(filepath.Join(a.Root, "spool"), 0o755))
	w.watcher = newWatcher(a, watch.Options{Open: func() (*fsnotify.Watcher, error) { return nil, unix.EMFILE }})
	go w.awaitSpool()
	go w.Run()
	return w
}

func (w *watched) socket(step string) string { return filepath.Join(w.spool, "n1_"+step) }

// told returns the ends of steps that the agent has been told of.
func (w *watched) told() (ends int) {
	synctest.Wait()
	for len(w.agent.events) > 0 {
		if _, is := (<-w.agent.events).(lifecycle.StepsEnded); is {
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
		w.agent.spoolMade <- struct{}{} // slurmd's READY, and that of its successor
		synctest.Wait()
		w.agent.spoolMade <- struct{}{}
		synctest.Wait()
		require.Len(t, w.notices, 1)
		assert.Equal(t, slog.LevelWarn, w.notices[0].Level)
		assert.Equal(t, "the kernel cannot tell of the ends of steps: they are looked for every 1s", w.notices[0].Text)

		<-time.After(10 * glanceEvery) // in a bubble it costs no time
		assert.Zero(t, w.told(), "nothing has ended")
		require.NoError(t, os.Remove(w.socket("3.0")))
		listening(t, w.socket("5.0"))
		<-time.After(glanceEvery)
		assert.Equal(t, 1, w.told(), "one has ended, though there are as many as before")
		<-time.After(10 * glanceEvery)
		assert.Zero(t, w.told(), "it is told once")
		close(w.agent.over)
	})
}

// TestLostEvents: what the kernel has dropped may have been a step's end.
func TestLostEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t)
		w.Do(func() { w.lost(fsnotify.ErrEventOverflow) })
		assert.Equal(t, 1, w.told())
		assert.Len(t, w.notices, 1)
		close(w.agent.over)
	})
}
