package webpage

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
)

// limit is for a busy machine.
const limit = time.Minute

// site is a server that runs.
type site struct {
	*Server
	address string
	asked   atomic.Int64
	lock    sync.Mutex
	facts   *pagefacts.Facts
	err     error
	// dials is nil for the address.
	dials func(context.Context) (net.Conn, error)
}

func (s *site) tell(facts *pagefacts.Facts, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.facts, s.err = facts, err
}

// userHeader is what the tests' proxy sets.
const userHeader = "X-Forwarded-User"

// open serves facts to a proxy.
func open(t *testing.T, facts *pagefacts.Facts) *site {
	t.Helper()
	return openAt(t, facts, Entrance{Address: "127.0.0.1:0", UserHeader: userHeader})
}

func openAt(t *testing.T, facts *pagefacts.Facts, e Entrance) *site {
	t.Helper()
	s := &site{facts: facts}
	var err error
	s.Server, err = New(Options{
		Facts: func(context.Context) (*pagefacts.Facts, error) {
			s.asked.Add(1)
			s.lock.Lock()
			defer s.lock.Unlock()
			return s.facts, s.err
		},
		Entrance: e, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	l, err := e.Listen(t.Context())
	require.NoError(t, err)
	s.address = l.Addr().String()
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		end()
		require.NoError(t, <-done)
	})
	return s
}

// as is a request that a proxy passes on for a user.
func as(user string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(userHeader, user) }
}

// dial comes from one of this machine's addresses.
func (s *site) dial(t *testing.T, last byte) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, last)}}
	conn, err := d.Dial("tcp", s.address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (s *site) request(t *testing.T, method, path string, change func(*http.Request)) (code int, header http.Header, text string) {
	t.Helper()
	request, err := http.NewRequest(method, "http://"+s.address+path, nil)
	require.NoError(t, err)
	if change != nil {
		change(request)
	}
	client := http.Client{Timeout: limit, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if s.dials != nil {
		client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dials(ctx) }}
	}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.Header, string(body)
}

func TestAnswers(t *testing.T) {
	s := open(t, sample(3, 10))
	for _, c := range []struct {
		name, method, path string
		change             func(*http.Request)
		code               int
		named              bool
	}{
		{"a stranger", "GET", "/", nil, 200, false},
		{"a head", "HEAD", "/", nil, 200, false},
		{"a user", "GET", "/", as("alice"), 200, true},
		{"a user with an address", "GET", "/", as("alice@example.com"), 200, true},
		{"nobody", "GET", "/", as(""), 400, false},
		{"two users", "GET", "/", func(r *http.Request) { r.Header[userHeader] = []string{"mallory", "alice"} }, 400, false},
		{"a name that is too long", "GET", "/", as(strings.Repeat("x", 300)), 400, false},
		{"another header", "GET", "/", func(r *http.Request) { r.Header.Set("X-Remote-User", "alice") }, 200, false},
		{"a password", "GET", "/", func(r *http.Request) { r.SetBasicAuth("alice", "open sesame") }, 200, false},
		{"another host, behind a proxy", "GET", "/", func(r *http.Request) { r.Host = "slurm.example.com" }, 200, false},
		{"a health check", "GET", "/healthz", nil, 200, false},
		{"the style", "GET", "/style.css", nil, 200, false},
		{"the script", "GET", "/page.js", nil, 200, false},
		{"the icon", "GET", "/icon.svg", nil, 200, false},
		{"what is not there", "GET", "/page.html", nil, 404, false},
		{"a way up", "GET", "/../server.go", nil, 404, false},
		{"a change", "POST", "/", nil, 405, false},
		{"a body", "GET", "/", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1 }, 413, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, header, body := s.request(t, c.method, c.path, c.change)
			require.Equal(t, c.code, code)
			require.Equal(t, c.named, strings.Contains(body, "cpu-0000"))
			require.Equal(t, policy, header.Get("Content-Security-Policy"))
			require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
			require.Equal(t, "no-referrer", header.Get("Referrer-Policy"))
			if c.code == 200 && c.path == "/" {
				require.Equal(t, []string{userHeader, "Accept-Encoding"}, header.Values("Vary"))
			}
		})
	}
}

// TestSeldom: net/http's faults, such as panics, are logged as warnings, once a minute.
func TestSeldom(t *testing.T) {
	log := &bytes.Buffer{}
	s := newSeldom(slog.New(slog.NewTextHandler(log, nil)))
	to := slog.NewLogLogger(seldomHandler{s.log.Handler(), s}, slog.LevelWarn)
	for range 3 {
		to.Print("http: panic serving")
	}
	require.Equal(t, 1, strings.Count(log.String(), "panic"))
	require.Contains(t, log.String(), "level=WARN")
}

// TestNobodyLooks: slurmctld's agent is asked only while somebody looks.
func TestNobodyLooks(t *testing.T) {
	s := open(t, sample(3, 10))
	require.Zero(t, s.asked.Load())
	began := time.Now()
	for range 20 {
		s.request(t, "GET", "/", nil)
	}
	require.LessOrEqual(t, s.asked.Load(), int64(1+time.Since(began)/pause))
	s.source.lock.Lock()
	defer s.source.lock.Unlock()
	require.Zero(t, s.source.watched)
}

// TestOldFacts: an agent that is away leaves the last values. Readers with a name are told why they
// are old.
func TestOldFacts(t *testing.T) {
	s := open(t, nil)
	both := func() (stranger, alice string) {
		_, _, stranger = s.request(t, "GET", "/", nil)
		_, _, alice = s.request(t, "GET", "/", as("alice"))
		return stranger, alice
	}
	s.tell(nil, errors.New("cannot ask slurmctld's agent: <gone>"))
	stranger, alice := both()
	require.Contains(t, alice, "&lt;gone&gt;")
	require.NotContains(t, stranger, "gone")
	require.Contains(t, stranger, "These values are old")
	require.Contains(t, stranger, "no values yet")
	s.tell(sample(3, 10), nil)
	s.forget()
	stranger, alice = both()
	require.NotContains(t, stranger, "These values are old")
	require.NotContains(t, alice, "gone")
	require.Contains(t, stranger, "lyra")
	s.tell(nil, errors.New("gone again"))
	s.forget()
	stranger, alice = both()
	require.Contains(t, alice, "gone again")
	require.NotContains(t, stranger, "gone")
	require.Contains(t, stranger, "lyra")
}

// forget has the next look ask again.
func (s *site) forget() {
	s.source.lock.Lock()
	defer s.source.lock.Unlock()
	s.source.asked = time.Time{}
}

// listen gets events from an address.
func (s *site) listen(t *testing.T, last byte, header string) (*bufio.Reader, net.Conn) {
	t.Helper()
	conn := s.dial(t, last)
	_, err := fmt.Fprintf(conn, "GET /events?seen=0 HTTP/1.1\r\nHost: x\r\n%s\r\n", header)
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(limit)))
	return bufio.NewReader(conn), conn
}

// until reads up to a line with a text.
func until(r *bufio.Reader, text string) error {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.Contains(line, text) {
			return nil
		}
	}
}

// TestEvents: a change is told to those who look.
func TestEvents(t *testing.T) {
	s := open(t, sample(3, 10))
	events, conn := s.listen(t, 1, "")
	require.NoError(t, until(events, "event: view"))
	next := sample(3, 10)
	next.Agent.State = "Stopping"
	s.tell(next, nil)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(limit)))
	require.NoError(t, until(events, "data: 2"))
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool {
		s.source.lock.Lock()
		defer s.source.lock.Unlock()
		return s.source.watched == 0
	}, limit, 10*time.Millisecond)
}

// TestAttack: half-sent requests, readers that do not read and 1,000 that want events keep nobody
// out, and cost a bounded number of goroutines. Who has a name keeps his events.
func TestAttack(t *testing.T) {
	s := open(t, sample(3000, 1000))
	before := runtime.NumGoroutine()
	named, namedConn := s.listen(t, 9, userHeader+": bob\r\n")
	require.NoError(t, until(named, "event: view"))
	for i := range 1000 {
		s.listen(t, 2, "")
		if i%2 == 0 {
			fmt.Fprint(s.dial(t, 3), "GET / HTTP/1.1\r\nHo")
		}
		if i%4 == 0 {
			slow := s.dial(t, 4)
			require.NoError(t, slow.(*net.TCPConn).SetReadBuffer(1))
			fmt.Fprint(slow, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		}
	}
	code, _, body := s.request(t, "GET", "/", nil)
	require.Equal(t, 200, code)
	require.Contains(t, body, "lyra")
	require.Less(t, runtime.NumGoroutine()-before, 4*mostVisitors)

	next := sample(3, 10)
	next.Agent.State = "Stopping"
	s.tell(next, nil)
	require.NoError(t, namedConn.SetReadDeadline(time.Now().Add(limit)))
	require.NoError(t, until(named, "event: view"), "the stream of somebody with a name is there")
	code, _, _ = s.request(t, "GET", "/", as("alice"))
	require.Equal(t, 200, code)
}

// TestDoor: strangers go before names, and the address with the most loses its oldest.
func TestDoor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	d := newDoor(l, 4)
	enter := func(last byte, name string) *visitor {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, last)}}
		conn, err := dialer.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		in, err := d.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { _ = in.Close() })
		in.(*visitor).is(name)
		return in.(*visitor)
	}
	stays := func(v *visitor) bool {
		d.lock.Lock()
		defer d.lock.Unlock()
		return !v.gone
	}
	alone, bob := enter(1, ""), enter(2, "bob")
	first, second := enter(2, ""), enter(2, "")
	enter(2, "")
	require.False(t, stays(first))
	require.True(t, stays(alone) && stays(bob) && stays(second))
	enter(3, "bob")
	require.False(t, stays(second))
	enter(4, "bob")
	require.False(t, stays(alone), "of the strangers with one connection each, the oldest")
	require.True(t, stays(bob))
	enter(5, "")
	require.False(t, stays(bob), "names have only half of the places for themselves")
}

func TestNetwork(t *testing.T) {
	for from, want := range map[string]string{
		"10.1.2.3:4": "10.1.2.3", "[::ffff:10.1.2.3]:4": "10.1.2.3", "[2001:db8:1:2:3:4:5:6]:7": "2001:db8:1:2::/64", "[fe80::1%eth0]:7": "fe80::/64",
	} {
		a, err := net.ResolveTCPAddr("tcp", from)
		if err != nil {
			continue // no such zone here
		}
		require.Equal(t, want, network(a), from)
	}
}
