package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/watch"
)

// TestUrge: only the nodes that are named hear of a set that is tried, and once.
func TestUrge(t *testing.T) {
	f, url := serveFeed(t)
	first, second := manifestOf("first"), manifestOf("second")
	f.announce(first, mostTested)
	f.hold()
	node := poll(t, url+"?unlike="+first.hash)
	awaitWaiting(t, f, 1)
	require.Equal(t, map[string]bool{"127.0.0.1": true}, f.hosts())
	f.urge(second, map[string]bool{"10.88.0.9": true}, 0)
	require.Equal(t, 1, f.count(), "it is another node's")

	f.urge(second, map[string]bool{"127.0.0.1": true}, 20*time.Millisecond)
	got := <-node
	require.NoError(t, got.err)
	require.Equal(t, second.hash, got.hash)
	require.NotNil(t, got.urged)
	require.Equal(t, 20*time.Millisecond, *got.urged)

	node = poll(t, url+"?unlike="+second.hash)
	awaitWaiting(t, f, 1)
	f.urge(second, map[string]bool{"127.0.0.1": true}, 0)
	require.Equal(t, 1, f.count(), "it has heard of it")
	f.announce(first, mostTested)
	got = <-node
	require.Equal(t, first, got.manifest, "it was taken back, which is news as ever")
	require.Nil(t, got.urged)
}

func TestUrgedBy(t *testing.T) {
	for contentType, want := range map[string]time.Duration{
		urgeType(0): 0, urgeType(3 * time.Second): 3 * time.Second, urgeType(time.Hour): longestUrge,
		"text/plain; charset=utf-8": -1, "text/plain": -1, "": -1, "text/plain; restart=soon": -1, "text/plain; restart=-5": -1, "text/plain; restart=99999999999": -1, "restart": -1,
	} {
		got := urgedBy(contentType)
		if want < 0 {
			require.Nil(t, got, contentType)
			continue
		}
		require.NotNil(t, got, contentType)
		require.Equal(t, want, *got, contentType)
	}
}

// TestUrged: slurmd is restarted, though its copy is what is tried: it runs with another.
func TestUrged(t *testing.T) {
	a := &Agent{events: make(chan event, 1), over: make(chan struct{})}
	defer close(a.over)
	f := newFollower(a, t.TempDir(), watch.Options{})
	go f.Run()
	take := func(m manifest) { f.Do(func() { f.take(m) }) }
	m, within := manifestOf("second"), time.Millisecond
	m.urged = &within
	take(m)
	require.Equal(t, outdated{}, <-a.events)
	take(m) // it may come by a question that is open as well
	take(manifestOf("first"))
	require.Empty(t, a.events)
	take(m)
	require.Equal(t, outdated{}, <-a.events, "it is tried once more")
}
