package agent

import (
	"context"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFollowerAsks: what is announced while a daemon is given time for what came
// before is news, and no reason to restart it.
func TestFollowerAsks(t *testing.T) {
	feed, address := serveFeed(t)
	u, err := url.Parse(address)
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	f := &follower{agent: &Agent{Options: Options{Config: Config{Controller: u.Hostname() + ":6817", AgentPort: port}}}}

	first, second := manifestOf("first"), manifestOf("second")
	feed.announce(first)
	for _, c := range []struct {
		what      string
		announced manifest
		news      bool
	}{
		{"the first", first, true},
		{"the same", first, false},
		{"another", second, true},
		{"the same again", second, false},
	} {
		feed.announce(c.announced)
		f.restarts = 1
		news, err := f.ask()
		require.NoError(t, err, c.what)
		require.Equal(t, c.news, news, c.what)
		require.Equal(t, c.announced, f.announced, c.what)
		require.Equal(t, c.news, f.restarts == 0, "%s: restarts are counted anew", c.what)
	}
}

// TestHowAQuestionEnds: only a slurmctld that was there has gone.
func TestHowAQuestionEnds(t *testing.T) {
	f, url := serveFeed(t)
	f.announce(manifestOf("first"))
	held := url + "?unlike=" + manifestOf("first").hash

	waits := poll(t, held)
	awaitWaiting(t, f, 1)
	f.hangUp()
	require.ErrorIs(t, (<-waits).err, errHungUp)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := getConf(ctx, held)
	require.ErrorIs(t, err, errNoNews)

	_, err = getConf(t.Context(), "http://127.0.0.1:1/conf") // tcpmux, which nobody has
	require.Error(t, err)
	require.NotErrorIs(t, err, errHungUp)
	require.NotErrorIs(t, err, errNoNews)
}

// TestSlurmctldIsAway: each time that it goes is told, and for a while that it is not back.
func TestSlurmctldIsAway(t *testing.T) {
	f, address := serveFeed(t)
	u, err := url.Parse(address)
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	a := &Agent{
		Options: Options{Config: Config{Controller: u.Hostname() + ":6817", AgentPort: port}},
		events:  make(chan event, 8), over: make(chan struct{}),
	}
	f.announce(manifestOf("first"))
	news := make(chan manifest)
	go a.pollConf(news)
	defer close(a.over)
	require.Equal(t, manifestOf("first"), <-news)
	for range 2 {
		awaitWaiting(t, f, 1)
		f.hangUp()
		require.Equal(t, controllerLost{}, <-a.events)
	}
}
