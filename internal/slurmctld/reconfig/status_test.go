package reconfig

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// TestNotLiveYet: a set that slurmctld was started with is not called live, nor announced,
// before its nodes have it.
func TestNotLiveYet(t *testing.T) {
	var said []string
	r := &Reloader{Options: Options{Log: func(_ slog.Level, text string, _ ...slog.Attr) { said = append(said, text) }}}
	see(t, r, func(s *lifecycle.State) {
		s.Phase, s.Conf.Unsettled = supervisor.Ready, true
		s.Conf.Live, s.Conf.Good = &confset.Set{Hash: "second"}, &confset.Set{Hash: "first"}
	})
	see(t, r, func(s *lifecycle.State) { s.WasReady, s.Conf.Activity = true, conf.AwaitingLaunches })
	require.Empty(t, said)
}

// radio is a Feed that keeps what it was told.
type radio struct {
	listeners
	said chan string
}

func (r radio) Hold()               { r.said <- "hold" }
func (r radio) Announce(dir string) { r.said <- filepath.Base(dir) }

// taker is a slurmctld that takes every configuration.
type taker struct{ slurm.Client }

func (taker) Reconfigure(context.Context) error { return nil }

// TestAnnouncedAgain: a reload by hand of what is live silences the feed, and what it has taken is announced.
func TestAnnouncedAgain(t *testing.T) {
	r := opened(t, taker{}, PreflightOff)
	feed := radio{said: make(chan string, 9)}
	r.Feed = feed
	see(t, r, func(s *lifecycle.State) { s.Conf.Good, s.WasReady, s.Conf.Outcomes.Taken = s.Conf.Live, true, 1 })
	assert.Equal(t, "conf.1", <-feed.said)
	require.NoError(t, r.reconfigure(t.Context(), read(t, r), ""))
	assert.Equal(t, "hold", <-feed.said)
	see(t, r, func(s *lifecycle.State) { s.Conf.Activity = conf.Spreading })
	see(t, r, func(s *lifecycle.State) { s.Conf.Activity, s.Conf.Outcomes.Taken = conf.Idle, 2 })
	assert.Equal(t, "conf.2", <-feed.said)
	require.Empty(t, feed.said)
}

// TestAnnouncedTooLate: an announcement that comes while the next set is tried is none.
func TestAnnouncedTooLate(t *testing.T) {
	r := opened(t, taker{}, PreflightOff)
	feed := radio{said: make(chan string, 9)}
	r.Feed = feed
	late, err := filepath.EvalSymlinks(r.LiveDir())
	require.NoError(t, err)
	change("ClusterName=c1\nPrologEpilogTimeout=5\n")(t, r)
	require.NoError(t, r.reconfigure(t.Context(), read(t, r), ""))
	assert.Equal(t, "hold", <-feed.said)
	assert.False(t, r.announceIfLive(late))
	require.Empty(t, feed.said)
}

// TestReload: a reload by hand ends with the result of what the sources held then.
func TestReload(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*lifecycle.State)
		want string
	}{
		"slurmctld takes it":     {func(s *lifecycle.State) { s.Conf.Resolved = 1 }, ""},
		"slurmctld refuses it":   {func(s *lifecycle.State) { s.Conf.Resolved, s.Conf.Result = 1, "no" }, "no"},
		"a later one is refused": {func(s *lifecycle.State) { s.Conf.Resolved, s.Conf.Result = 2, "no" }, "no"},
		"the pod ends":           {func(s *lifecycle.State) { s.Phase = supervisor.Stopping }, "the pod is terminating: its configuration is not changed any more"},
	} {
		t.Run(name, func(t *testing.T) {
			r := opened(t, &reader{}, PreflightParse)
			over := make(chan error, 1)
			posted := make(chan lifecycle.Event, 1)
			go func() { over <- r.TryNow(t.Context(), func(e lifecycle.Event) { posted <- e }) }()
			revision := (<-posted).(conf.Revision)
			assert.True(t, revision.Forced)
			assert.Equal(t, 1, revision.Request)
			see(t, r, func(s *lifecycle.State) { s.Conf.Activity = conf.Checking })
			require.Empty(t, over, "there is no result yet")
			see(t, r, c.then)
			err := <-over
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, c.want)
			}
		})
	}
}

// TestReloadGivenUp: the client of a reload by hand may go.
func TestReloadGivenUp(t *testing.T) {
	r := opened(t, &reader{}, PreflightParse)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, r.TryNow(ctx, func(lifecycle.Event) { cancel() }), context.Canceled)
}

// TestLastReload: the status says when the last edit was taken, and how long it took.
func TestLastReload(t *testing.T) {
	r := &Reloader{}
	last := func() *Reload { return r.seen.Load().Reloads.Last }
	see(t, r, func(*lifecycle.State) {})
	require.Nil(t, last())
	see(t, r, func(s *lifecycle.State) {
		s.Conf.Outcomes = conf.Outcomes{Taken: 1, ReadAt: time.Now().Add(-time.Second)}
	})
	first := last()
	require.InDelta(t, 1, first.Seconds, 0.5)
	see(t, r, func(s *lifecycle.State) { s.Conf.Outcomes.Refused++ })
	require.Same(t, first, last())
	see(t, r, func(s *lifecycle.State) { s.Conf.Outcomes.Taken++ })
	require.NotSame(t, first, last())
}

// TestContainersAreRefused: where nodes have the plugin, no job of srun's runs outside of its container.
func TestContainersAreRefused(t *testing.T) {
	for stack, want := range map[string]bool{"": true, "optional lua.so\n": true, "required /opt/slurmlet/spank_slurmlet.so store=/x\n": false} {
		r := opened(t, taker{}, PreflightOff)
		if stack != "" {
			require.NoError(t, os.WriteFile(filepath.Join(r.Sources[0], "plugstack.conf"), []byte(stack), 0o600))
		}
		set := read(t, r)
		require.NoError(t, r.place(set, ""))
		r.note(t.Context(), set, filepath.Join(r.RunDir, "conf"))
		found := r.notes.Load()
		assert.Equal(t, want, found.uncontained, stack)
		said := strings.Join(found.costs, "\n")
		assert.Equal(t, !want, strings.Contains(said, "plugstack.conf:1:10: there is no oci.conf: nodes refuse srun --container"), said)
	}
}
