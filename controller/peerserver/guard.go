package peerserver

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/door"
)

// guard is a listener that bounds how many connections of strangers there are: those that have not
// shown a token that gives a right. An agent's connection is no stranger's any more, and is never ended
// for one.
type guard struct {
	net.Listener
	limit   int
	evicted *atomic.Uint64

	mu        sync.Mutex
	strangers *door.Set[netip.Addr, *connection]
}

// connection is one that a guard has accepted.
type connection struct {
	net.Conn
	guard *guard
	from  netip.Addr
	since time.Time
	place *door.Place[netip.Addr, *connection]
}

const (
	// shareOfOne is the part of all places that one address gets.
	shareOfOne = 4
	// timeOfOne is how long a stranger keeps its place while others need it: an agent needs less.
	timeOfOne = 2 * time.Second
)

func newGuard(l net.Listener, limit int, evicted *atomic.Uint64) *guard {
	return &guard{Listener: l, limit: limit, evicted: evicted, strangers: door.NewSet[netip.Addr, *connection]()}
}

// Accept returns connections that have a place.
func (g *guard) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &connection{Conn: conn, guard: g, from: address(conn.RemoteAddr().String()), since: time.Now()}
		out := g.admit(c)
		if out != nil {
			g.evicted.Add(1)
			go reset(out.Conn) // which waits until nobody reads it any more
		}
		if out != c {
			return c, nil
		}
	}
}

// admit gives c a place, and returns the stranger that has to go for it, which may be c.
func (g *guard) admit(c *connection) (out *connection) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if own := g.strangers.LenOf(c.from); own >= max(g.limit/shareOfOne, 1) {
		out = g.strangers.OldestOf(c.from).Conn
	} else if g.strangers.Len() >= g.limit {
		out = g.leaves(c)
	}
	if out == c {
		return c
	}
	if out != nil {
		out.place.Leave()
	}
	c.place = g.strangers.Add(c.from, c)
	return out
}

// leaves is the oldest of the address that has the most connections. If none has more than one, it is the
// oldest of all that has had its time, or else the newcomer: thousands of agents that come at once after
// a restart do not push one another out.
func (g *guard) leaves(newcomer *connection) *connection {
	oldest := g.strangers.OldestOfMost()
	if g.strangers.LenOf(oldest.Key()) > 1 || newcomer.since.Sub(oldest.Conn.since) > timeOfOne {
		return oldest.Conn // where each has one, it is the oldest of all
	}
	return newcomer
}

func (g *guard) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.strangers.Len()
}

// closeStrangers ends all of them.
func (g *guard) closeStrangers() {
	g.mu.Lock()
	all := slices.Collect(g.strangers.All())
	g.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

// leave: c is no stranger's any more, or has ended.
func (c *connection) leave() {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	if c.place != nil {
		c.place.Leave()
	}
}

func (c *connection) Close() error {
	c.leave()
	return c.Conn.Close()
}

type connectionKey struct{}

// withConnection keeps the connection of a request, for keepsPlace.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, conn)
}

// From is the address that asks for what a ServerOptions.Authenticate decides; not valid if nobody knows.
func From(ctx context.Context) netip.Addr {
	conn, _ := ctx.Value(connectionKey{}).(net.Conn)
	if conn == nil {
		return netip.Addr{}
	}
	return address(conn.RemoteAddr().String())
}

// keepsPlace says that the connection of a request is no stranger's, so that it is never ended for one.
func keepsPlace(ctx context.Context) {
	conn, _ := ctx.Value(connectionKey{}).(net.Conn)
	if t, is := conn.(*tls.Conn); is {
		conn = t.NetConn()
	}
	if c, is := conn.(*connection); is {
		c.leave()
	}
}

// plain is the TCP connection below others.
func plain(conn net.Conn) *net.TCPConn {
	if t, is := conn.(*tls.Conn); is {
		conn = t.NetConn()
	}
	if c, is := conn.(*connection); is {
		conn = c.Conn
	}
	tcp, _ := conn.(*net.TCPConn)
	return tcp
}

// reset ends a connection at once: nothing that was not read stays in the kernel.
func reset(conn net.Conn) {
	if tcp := plain(conn); tcp != nil {
		_ = tcp.SetLinger(0)
		if c, is := conn.(*tls.Conn); is {
			conn = c.NetConn() // without TLS' last words, which could block
		}
	}
	_ = conn.Close()
}
