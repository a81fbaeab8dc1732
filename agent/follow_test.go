package agent

import (
	"net/url"
	"strconv"
	"testing"

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
