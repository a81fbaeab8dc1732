package confsync

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/watch"
)

// TestFollowerAsks: what is announced while a daemon is given time for what came
// before is news, and no reason to restart it.
func TestFollowerAsks(t *testing.T) {
	feed, address := serveFeed(t)
	u, err := url.Parse(address)
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	f := NewFollower(FollowerOptions{Slurmctld: u.Hostname() + ":6817", AgentPort: port})

	first, second := manifestOf("first"), manifestOf("second")
	feed.announce(first, mostTested)
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
		feed.announce(c.announced, mostTested)
		f.restarts = 1
		news, err := f.ask()
		require.NoError(t, err, c.what)
		require.Equal(t, c.news, news, c.what)
		require.Equal(t, c.announced.hash, f.announced.hash, c.what)
		require.Equal(t, c.news, f.restarts == 0, "%s: restarts are counted anew", c.what)
	}
}

// TestHowAQuestionEnds: only a slurmctld that was there has gone.
func TestHowAQuestionEnds(t *testing.T) {
	f, url := serveFeed(t)
	f.announce(manifestOf("first"), mostTested)
	held := url + "?unlike=" + manifestOf("first").hash

	waits := poll(t, held)
	awaitWaiting(t, f, 1)
	f.hangUp()
	require.ErrorIs(t, (<-waits).err, errHungUp)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := manifestAt(ctx, nil, held)
	require.ErrorIs(t, err, errNoNews)

	_, err = manifestAt(t.Context(), nil, "http://127.0.0.1:1/conf") // tcpmux, which nobody has
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
	done, lost := make(chan struct{}), make(chan struct{}, 8)
	defer close(done)
	follower := NewFollower(FollowerOptions{
		Slurmctld: u.Hostname() + ":6817", AgentPort: port, Done: done, Lost: func() { lost <- struct{}{} },
		Log: func(slog.Level, string, ...slog.Attr) {},
	})
	f.announce(manifestOf("first"), mostTested)
	news := make(chan manifest)
	go follower.poll(func(m manifest) bool {
		select {
		case news <- m:
			return true
		case <-done:
			return false
		}
	})
	require.Equal(t, manifestOf("first").hash, (<-news).hash)
	for range 2 {
		awaitWaiting(t, f, 1)
		f.hangUp()
		<-lost
	}
}

// TestSlurmctldIsMetLate: a slurmctld that answers for the first time after questions in vain may be another one than
// the one that the node has registered with.
func TestSlurmctldIsMetLate(t *testing.T) {
	feed, address := serveFeed(t)
	asked := make(chan struct{}, 8)
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		asked <- struct{}{}
	}))
	defer busy.Close()
	cable := newCable(t, busy.Listener.Addr().String())
	follower, lost := followThrough(t, cable)
	feed.announce(manifestOf("first"), mostTested)
	news := make(chan manifest, 8)
	go follower.poll(func(m manifest) bool { news <- m; return true })
	<-asked
	cable.pull()
	cable.plugIn(hostPort(t, address))
	require.Equal(t, manifestOf("first").hash, (<-news).hash)
	<-lost
	awaitWaiting(t, feed, 1)
	require.Empty(t, lost, "once")
}

// TestSlurmctldIsAnotherOne: a node that is cut off hears the last word of the old slurmctld when the next
// one is there already, with the same configuration.
func TestSlurmctldIsAnotherOne(t *testing.T) {
	earlier, first := serveFeed(t)
	later, second := serveFeed(t)
	cable := newCable(t, hostPort(t, first))
	follower, lost := followThrough(t, cable)
	earlier.announce(manifestOf("first"), mostTested)
	later.announce(manifestOf("second"), mostTested)
	news := make(chan manifest, 8)
	go follower.poll(func(m manifest) bool { news <- m; return true })
	require.Equal(t, manifestOf("first").hash, (<-news).hash)
	awaitWaiting(t, earlier, 1)

	cable.pull()
	earlier.announce(manifestOf("second"), mostTested)
	awaitWaiting(t, earlier, 0)
	cable.plugIn(hostPort(t, second))
	require.Equal(t, manifestOf("second").hash, (<-news).hash, "the old one's word")
	<-lost
	require.Equal(t, manifestOf("second").hash, (<-news).hash, "the next one's")
	awaitWaiting(t, later, 1)
	require.Empty(t, lost, "once")
}

func hostPort(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return u.Host
}

// followThrough makes a Follower that asks at a cable's end, and what is sent for each slurmctld that it has lost.
func followThrough(t *testing.T, c *cable) (*Follower, <-chan struct{}) {
	t.Helper()
	done, lost := make(chan struct{}), make(chan struct{}, 8)
	t.Cleanup(func() { close(done) })
	host, port, err := net.SplitHostPort(c.Addr().String())
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	return NewFollower(FollowerOptions{
		Slurmctld: net.JoinHostPort(host, "6817"), AgentPort: number, Done: done, Lost: func() { lost <- struct{}{} },
		Log: func(slog.Level, string, ...slog.Attr) {},
	}), lost
}

// cable connects those that dial it to another address. While it is pulled, what is said waits.
type cable struct {
	net.Listener
	lock sync.Mutex
	to   string
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cable{Listener: l, to: to}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go c.connect(near)
		}
	}()
	return c
}

func (c *cable) connect(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", c.target())
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	text, _ := io.ReadAll(far) // an answer ends its connection
	_ = c.target()
	_, _ = near.Write(text)
}

// target waits while the cable is pulled.
func (c *cable) target() string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.to
}

func (c *cable) pull() { c.lock.Lock() }

func (c *cable) plugIn(to string) {
	c.to = to
	c.lock.Unlock()
}

// TestFollowerWithoutTheKernel: the copy is looked at from time to time.
func TestFollowerWithoutTheKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		done := make(chan struct{})
		defer close(done)
		f := newFollower(FollowerOptions{
			Copy: t.TempDir(), Done: done,
			Log: func(_ slog.Level, text string, _ ...slog.Attr) { told = append(told, text) },
		}, watch.Options{Open: func() (*fsnotify.Watcher, error) { return nil, unix.ENOSPC }})
		old := "missed"
		f.fault.Store(&old)
		go f.files.Run()
		f.files.Do(func() { f.take(newManifest(nil)) })
		<-time.After(2 * pushTime) // in a bubble it costs no time
		synctest.Wait()
		require.Empty(t, f.Fault(), "it is looked at once after the news")

		f.fault.Store(&old)
		<-time.After(watch.Every + 2*pushTime)
		synctest.Wait()
		require.Empty(t, f.Fault())
		require.Equal(t, []string{"the kernel cannot report changes of the copy of the configuration: it is looked at every 1m0s"}, told)
	})
}
