package confsync

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/keyring"
	"github.com/slurmlet/slurmlet/internal/link/proof"
	"github.com/slurmlet/slurmlet/internal/link/publichttp"
)

// ringOf has one key; "" is no ring.
func ringOf(name string) func() *keyring.Ring {
	if name == "" {
		return func() *keyring.Ring { return nil }
	}
	key, err := keyring.NewKey(name, bytes.Repeat([]byte(name), 16), time.Time{})
	if err != nil {
		panic(err)
	}
	r := &keyring.Ring{Keys: []keyring.Key{key}}
	return func() *keyring.Ring { return r }
}

// provedFeed has its challenge beside it, as on the agent's port.
func provedFeed(t testing.TB, key string) (*Feed, string) {
	return provedFeedWithin(t, key, publichttp.Limits{Active: 100, Waiting: 100, Timeout: time.Minute, WaitTimeout: time.Minute})
}

func provedFeedWithin(t testing.TB, key string, limits publichttp.Limits) (*Feed, string) {
	f, mux := &Feed{Verifier: &proof.Verifier{Keys: ringOf(key)}}, http.NewServeMux()
	mux.Handle("GET /conf", f)
	mux.Handle("GET "+proof.ChallengePath, f.Verifier)
	p, err := publichttp.Listen("127.0.0.1:0", mux, limits)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	f.Serve(p)
	return f, "http://" + p.Addr().String() + "/conf"
}

// follows says whether the agent of a node waits, from this address.
func (f *Feed) follows(node, from string) bool {
	is := make(chan bool, 1)
	f.port.Do(func() { is <- f.port.Waits(node, netip.MustParseAddr(from)) })
	return <-is
}

// TestProvedFollower: an agent with the cluster's key follows in its node's name; another one
// hears what strangers hear.
func TestProvedFollower(t *testing.T) {
	for _, c := range []struct {
		server, client string
		proved         bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a", "", false}, {"", "a", false}, {"", "", false},
	} {
		t.Run(c.server+" "+c.client, func(t *testing.T) {
			f, url := provedFeed(t, c.server)
			first, second := manifestOf("first"), manifestOf("second")
			f.announce(first, mostTested)
			prover := &proof.Client{Keys: ringOf(c.client)}
			m, err := manifestAt(t.Context(), prover, url+"?node=n1")
			require.NoError(t, err)
			require.Equal(t, first, m)
			news := make(chan newsOf, 1)
			go func() {
				m, err := manifestAt(t.Context(), prover, url+"?node=n1&unlike="+first.hash)
				news <- newsOf{m, err}
			}()
			awaitWaiting(t, f, 1)
			require.Equal(t, c.proved, f.follows("n1", "127.0.0.1"))
			require.False(t, f.follows("n2", "127.0.0.1"))
			require.False(t, f.follows("n1", "127.0.0.2"))
			f.announce(second, mostTested)
			got := <-news
			require.NoError(t, got.err)
			require.Equal(t, second.hash, got.hash)
			require.Equal(t, c.proved, got.nodes == 1, "so many follow")
		})
	}
}

// TestStrangersEvictNoNode: nodes behind one address keep their places, whatever comes from others.
func TestStrangersEvictNoNode(t *testing.T) {
	f, at := provedFeed(t, "a")
	first, second := manifestOf("first"), manifestOf("second")
	f.announce(first, 0)
	f.port.Do(func() { f.port.SetWaiting(mostTested) }) // no more than the nodes need
	prover := &proof.Client{Keys: ringOf("a")}
	nodes := make(chan newsOf, mostTested)
	for i := range mostTested {
		go func() {
			m, err := manifestAt(t.Context(), prover, fmt.Sprintf("%s?node=n%d&unlike=%s", at, i, first.hash))
			nodes <- newsOf{m, err}
		}()
	}
	awaitWaiting(t, f, mostTested)
	u, err := url.Parse(at)
	require.NoError(t, err)
	for i := range 4 * mostTested { // from one address, and from many
		stranger := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i/2))}}
		conn, err := stranger.Dial("tcp", u.Host)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "GET /conf?node=n%d&unlike=%s HTTP/1.1\r\nHost: x\r\n\r\n", i%mostTested, first.hash)
		require.NoError(t, err)
	}
	awaitWaiting(t, f, 2*mostTested)
	for i := range mostTested {
		require.True(t, f.follows("n"+strconv.Itoa(i), "127.0.0.1"))
	}
	f.announce(second, 0)
	for range mostTested {
		got := <-nodes
		require.NoError(t, got.err)
		require.Equal(t, second.hash, got.hash)
	}
}

// TestFalseNews: news that are not signed with the cluster's key are no news.
func TestFalseNews(t *testing.T) {
	v, mux := &proof.Verifier{Keys: ringOf("a")}, http.NewServeMux()
	mux.Handle("GET "+proof.ChallengePath, v)
	mux.HandleFunc("GET /conf", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, manifestOf("false")) })
	p, err := publichttp.Listen("127.0.0.1:0", mux, publichttp.Limits{Active: 100, Waiting: 100, Timeout: time.Minute, WaitTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	_, err = manifestAt(t.Context(), &proof.Client{Keys: ringOf("a")}, "http://"+p.Addr().String()+"/conf?unlike=")
	require.ErrorIs(t, err, proof.ErrNotProved)
}

// TestSpread: ten thousand agents do not come back at once, and a few of them soon.
func TestSpread(t *testing.T) {
	f := NewFollower(FollowerOptions{})
	for nodes, want := range map[int64]time.Duration{0: 0, 10: 10 * time.Millisecond, 10_000: 10 * time.Second, 1 << 31: time.Minute} {
		f.nodes.Store(nodes)
		require.Equal(t, want, f.Spread())
	}
}

// TestWithout: slurmctld's agent knows whose containers cannot hold jobs, from agents with the cluster's key alone.
func TestWithout(t *testing.T) {
	f, url := provedFeed(t, "a")
	first := manifestOf("first")
	f.announce(first, mostTested)
	for query, key := range map[string]string{"node=n2&without=devices": "a", "node=n1&without=cpuset,devices": "a", "node=n3": "a", "node=n4&without=devices": "b"} {
		go func() {
			_, _ = manifestAt(t.Context(), &proof.Client{Keys: ringOf(key)}, url+"?"+query+"&unlike="+first.hash)
		}()
	}
	awaitWaiting(t, f, 4)
	for controller, want := range map[string][]string{"devices": {"n1", "n2"}, "cpuset": {"n1"}, "memory": nil} {
		nodes, err := f.Without(t.Context(), controller)
		require.NoError(t, err)
		require.Equal(t, want, nodes, controller)
	}
}
