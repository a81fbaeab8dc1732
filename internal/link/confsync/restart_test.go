package confsync

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRestart: only the nodes that are named hear of a set that is tried, and once.
func TestRestart(t *testing.T) {
	f, url := serveFeed(t)
	first, second := manifestOf("first"), manifestOf("second")
	f.announce(first, mostTested)
	f.Hold()
	node := poll(t, url+"?unlike="+first.hash)
	awaitWaiting(t, f, 1)
	require.Equal(t, map[string]bool{"127.0.0.1": true}, f.Hosts())
	f.restart(second, map[string]bool{"10.88.0.9": true}, 0)
	require.Equal(t, 1, f.count(), "it is another node's")

	f.restart(second, map[string]bool{"127.0.0.1": true}, 20*time.Millisecond)
	got := <-node
	require.NoError(t, got.err)
	require.Equal(t, second.hash, got.hash)
	require.NotNil(t, got.restart)
	require.Equal(t, 20*time.Millisecond, *got.restart)

	node = poll(t, url+"?unlike="+second.hash)
	awaitWaiting(t, f, 1)
	f.restart(second, map[string]bool{"127.0.0.1": true}, 0)
	require.Equal(t, 1, f.count(), "it has heard of it")
	f.announce(first, mostTested)
	got = <-node
	require.Equal(t, first, got.manifest, "it was taken back, which is news as ever")
	require.Nil(t, got.restart)
}

func TestParseRestart(t *testing.T) {
	for contentType, want := range map[string]time.Duration{
		restartType(0): 0, restartType(3 * time.Second): 3 * time.Second, restartType(time.Hour): longestRestart,
		"text/plain; charset=utf-8": -1, "text/plain": -1, "": -1, "text/plain; restart=soon": -1, "text/plain; restart=-5": -1, "text/plain; restart=99999999999": -1, "restart": -1,
	} {
		got := parseRestart(contentType)
		if want < 0 {
			require.Nil(t, got, contentType)
			continue
		}
		require.NotNil(t, got, contentType)
		require.Equal(t, want, *got, contentType)
	}
}

// TestRestarted: slurmd is restarted, though its copy is what is tried: it runs with another.
func TestRestarted(t *testing.T) {
	done, restarts := make(chan struct{}), make(chan struct{}, 1)
	defer close(done)
	f := NewFollower(FollowerOptions{Copy: t.TempDir(), Done: done, Restart: func() { restarts <- struct{}{} }, Log: func(slog.Level, string, ...slog.Attr) {}})
	go f.files.Run()
	take := func(m manifest) { f.files.Do(func() { f.take(m) }) }
	m, within := manifestOf("second"), time.Millisecond
	m.restart = &within
	take(m)
	<-restarts
	take(m) // it may come by a question that is open as well
	take(manifestOf("first"))
	require.Empty(t, restarts)
	take(m)
	<-restarts // it is tried once more
}
