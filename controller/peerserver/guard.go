package peerserver

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// guard is a listener that bounds how many connections of strangers there are: those that have not
// shown a token that gives a right. An agent's connection is no stranger's any more, and is never ended
// for one.
type guard struct {
	net.Listener
	limit   int
	evicted *atomic.Uint64

	mu     sync.Mutex
	byAge  *list.List                // of *connection, the oldest first
	byAddr map[netip.Addr]*list.List // of *connection, the oldest first
}

// connection is one that a guard has accepted.
type connection struct {
	net.Conn
	guard         *guard
	from          netip.Addr
	since         time.Time
	inAge, inAddr *list.Element // nil once it is no stranger's
}

const (
	// shareOfOne is the part of all places that one address gets.
	shareOfOne = 4
	// timeOfOne is how long a stranger keeps its place while others need it: an agent needs less.
	timeOfOne = 2 * time.Second
)

func newGuard(l net.Listener, limit int, evicted *atomic.Uint64) *guard {
	return &guard{Listener: l, limit: limit, evicted: evicted, byAge: list.New(), byAddr: map[netip.Addr]*list.List{}}
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
			go hangUp(out.Conn) // which waits until nobody reads it any more
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
	if own := g.byAddr[c.from]; own != nil && own.Len() >= max(g.limit/shareOfOne, 1) {
		out = own.Front().Value.(*connection)
	} else if g.byAge.Len() >= g.limit {
		out = g.victim(c)
	}
	if out == c {
		return c
	}
	if out != nil {
		g.remove(out)
	}
	own := g.byAddr[c.from]
	if own == nil {
		own = list.New()
		g.byAddr[c.from] = own
	}
	c.inAge, c.inAddr = g.byAge.PushBack(c), own.PushBack(c)
	return out
}

// victim is the oldest of the address that has the most connections. If none has more than one, it is the
// oldest of all that has had its time, or else the newcomer: thousands of agents that come at once after
// a restart do not push one another out.
func (g *guard) victim(newcomer *connection) *connection {
	var most *list.List
	for _, of := range g.byAddr {
		if most == nil || of.Len() > most.Len() {
			most = of
		}
	}
	if most.Len() > 1 {
		return most.Front().Value.(*connection)
	}
	if oldest := g.byAge.Front().Value.(*connection); newcomer.since.Sub(oldest.since) > timeOfOne {
		return oldest
	}
	return newcomer
}

// remove takes c off the strangers. The caller holds mu.
func (g *guard) remove(c *connection) {
	if c.inAge == nil {
		return
	}
	own := g.byAddr[c.from]
	g.byAge.Remove(c.inAge)
	own.Remove(c.inAddr)
	if own.Len() == 0 {
		delete(g.byAddr, c.from)
	}
	c.inAge, c.inAddr = nil, nil
}

func (g *guard) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.byAge.Len()
}

// closeStrangers ends all of them.
func (g *guard) closeStrangers() {
	g.mu.Lock()
	var all []*connection
	for e := g.byAge.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*connection))
	}
	g.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

// leave: c is no stranger's any more, or has ended.
func (c *connection) leave() {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	c.guard.remove(c)
}

func (c *connection) Close() error {
	c.leave()
	return c.Conn.Close()
}

type connectionKey struct{}

// withConnection keeps the connection of a request, for acquaint.
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

// acquaint says that the connection of a request is no stranger's.
func acquaint(ctx context.Context) {
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

// hangUp ends a connection at once: nothing that was not read stays in the kernel.
func hangUp(conn net.Conn) {
	if tcp := plain(conn); tcp != nil {
		_ = tcp.SetLinger(0)
		if c, is := conn.(*tls.Conn); is {
			conn = c.NetConn() // without TLS' last words, which could block
		}
	}
	_ = conn.Close()
}
