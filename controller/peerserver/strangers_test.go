package peerserver

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/peers"
)

// request makes one by hand, and returns the answer.
func (c *controller) request(text string) string {
	conn, err := c.dial(1)
	require.NoError(c.t, err)
	defer conn.Close()
	require.NoError(c.t, conn.SetDeadline(time.Now().Add(limit)))
	_, _ = io.WriteString(conn, text) // the server may refuse before it has read all
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line)
}

// dial comes from an address of its own.
func (c *controller) dial(n int) (*tls.Conn, error) {
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n>>8), byte(n))}}).Dial("tcp", c.addr)
	if err != nil {
		return nil, err
	}
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}), nil
}

func TestRequests(t *testing.T) {
	c := newController(t, ServerOptions{})
	c.put(pod("n0", "u0", "10.0.0.1", 0))
	c.Sync()
	auth := func(role string) string { return "Host: x\r\nAuthorization: Bearer one/u0/" + role + "\r\n" }
	node := `{"name":"n","state":"idle"}`
	tooMany := `{"whole":true,"nodes":[` + strings.Repeat(node+",", mostNodes) + node + "]}"
	for name, tt := range map[string]struct{ text, want string }{
		"no token":              {"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 401 Unauthorized"},
		"another scheme":        {"GET /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Basic b25l\r\n\r\n", "HTTP/1.1 401 Unauthorized"},
		"a wrong token":         {"GET /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer abc\r\n\r\n", "HTTP/1.1 401 Unauthorized"},
		"a header without end":  {"GET /v1/stream HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", "HTTP/1.1 431 Request Header Fields Too Large"},
		"another path":          {"GET / HTTP/1.1\r\n" + auth("slurmd") + "\r\n", "HTTP/1.1 404 Not Found"},
		"another method":        {"POST /v1/stream HTTP/1.1\r\n" + auth("slurmd") + "\r\n", "HTTP/1.1 405 Method Not Allowed"},
		"a report of a node":    {"POST /v1/nodes HTTP/1.1\r\n" + auth("slurmd") + "Content-Length: 2\r\n\r\n{}", "HTTP/1.1 403 Forbidden"},
		"a report that is none": {"POST /v1/nodes HTTP/1.1\r\n" + auth("slurmctld") + "Content-Length: 2\r\n\r\n[]", "HTTP/1.1 400 Bad Request"},
		"a report out of order": {"POST /v1/nodes HTTP/1.1\r\n" + auth("slurmctld") + "Content-Length: 2\r\n\r\n{}", "HTTP/1.1 412 Precondition Failed"},
		"a report of too many":  {"POST /v1/nodes HTTP/1.1\r\n" + auth("slurmctld") + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(tooMany)) + tooMany, "HTTP/1.1 413 Request Entity Too Large"},
		"a report of no length": {"POST /v1/nodes HTTP/1.1\r\n" + auth("slurmctld") + "Transfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 411 Length Required"},
		"a report without end":  {"POST /v1/nodes HTTP/1.1\r\n" + auth("slurmctld") + "Content-Length: 99999999\r\n\r\n{\"nodes\":[" + strings.Repeat(`{"name":"n"},`, 1<<20), "HTTP/1.1 413 Request Entity Too Large"},
		"a stream":              {"GET /v1/stream HTTP/1.1\r\n" + auth("slurmd") + "\r\n", "HTTP/1.1 200 OK"},
		"no HTTP":               {"hello\r\n\r\n", "HTTP/1.1 400 Bad Request"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, c.request(tt.text)) })
	}
	c.broken.Store(true)
	assert.Equal(t, "HTTP/1.1 503 Service Unavailable", c.request("GET /v1/stream HTTP/1.1\r\n"+auth("slurmd")+"\r\n"))
	assert.Equal(t, uint64(1), c.Stats().UnknownTotal)
}

// TestWrongTokens: a process beside the agent that shows wrong tokens does not keep the agent out.
func TestWrongTokens(t *testing.T) {
	c := newController(t, ServerOptions{})
	c.Sync()
	for range 50 {
		require.Equal(t, "HTTP/1.1 401 Unauthorized", c.request("GET /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer abc\r\n\r\n"))
	}
	assert.Equal(t, "HTTP/1.1 200 OK", c.request("GET /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one/u0/slurmd\r\n\r\n"))
}

// TestStrangers: 2,000 addresses hold half-open connections, and agents come in and hear of changes.
func TestStrangers(t *testing.T) {
	c := newController(t, ServerOptions{Strangers: 100})
	c.put(pod("n0", "u0", "10.0.0.1", 0))
	c.Sync()
	first := c.client("one/u0/slurmd", peers.ClientOptions{})
	first.wait(t, "n0")

	const strangers = 2000
	var held sync.Map
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			for n := w; n < strangers; n += 4 {
				conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 2, byte(n>>8), byte(n))}}).Dial("tcp", c.addr)
				if err != nil {
					continue // it was evicted at once
				}
				held.Store(n, conn)
				switch n % 3 {
				case 0: // says nothing
				case 1:
					_, _ = conn.Write([]byte{22, 3, 1}) // a part of a TLS record
				case 2:
					s := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
					_ = conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
					if s.Handshake() == nil {
						_, _ = io.WriteString(s, "GET /v1/stream HTTP/1.1\r\nHost:")
					}
				}
			}
		})
	}
	second := c.client("one/u1/slurmd", peers.ClientOptions{})
	group.Wait()
	c.put(pod("n1", "u1", "10.0.0.2", 0))
	first.wait(t, "n0", "n1")
	second.wait(t, "n0", "n1")
	s := c.Stats()
	assert.LessOrEqual(t, s.Strangers, 100)
	assert.Equal(t, 2, s.Streams)
	assert.Positive(t, s.EvictedTotal)
	assert.Equal(t, 1, first.Status().Streams, "no stranger ends an agent's stream")
	held.Range(func(_, conn any) bool { _ = conn.(net.Conn).Close(); return true })
}

// TestGuardVictims says who goes when there is no room.
func TestGuardVictims(t *testing.T) {
	now := time.Now()
	type come struct {
		from string
		at   time.Duration
		out  int // the connection that goes, -1 for none
	}
	for name, all := range map[string][]come{
		"an address has its share":       {{"a", 0, -1}, {"a", 0, -1}, {"a", 0, 0}, {"a", 0, 1}},
		"the busiest loses its oldest":   {{"a", 0, -1}, {"b", 0, -1}, {"b", 0, -1}, {"c", 0, -1}, {"d", 0, -1}, {"e", 0, -1}, {"f", 0, -1}, {"g", 0, -1}, {"h", 0, 1}},
		"all are one, and have no time":  {{"a", 0, -1}, {"b", 0, -1}, {"c", 0, -1}, {"d", 0, -1}, {"e", 0, -1}, {"f", 0, -1}, {"g", 0, -1}, {"h", 0, -1}, {"i", time.Second, 8}},
		"the oldest has had its seconds": {{"a", 0, -1}, {"b", 0, -1}, {"c", 0, -1}, {"d", 0, -1}, {"e", 0, -1}, {"f", 0, -1}, {"g", 0, -1}, {"h", 0, -1}, {"i", 3 * time.Second, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var evicted atomic.Uint64
			g := newGuard(nil, 8, &evicted)
			var conns []*connection
			for i, one := range all {
				c := &connection{guard: g, from: netip.AddrFrom4([4]byte{127, 0, 0, one.from[0]}), since: now.Add(one.at)}
				conns = append(conns, c)
				out := g.admit(c)
				if one.out < 0 {
					require.Nil(t, out, i)
					continue
				}
				require.Same(t, conns[one.out], out, i)
			}
			assert.LessOrEqual(t, g.len(), 8)
		})
	}
}
