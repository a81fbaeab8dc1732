package inject

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/door"
)

// These bound the callers, who show no token. The API server speaks HTTP/1.1 with its webhooks, so it opens
// a connection for each review of a moment.
const (
	// most is how many have a place, and mostOfOne how many of one address. Each may send a review, so they
	// bound the memory.
	most, mostOfOne = 128, 32
	// mostWait is how many wait for a place, and mostWaitOfOne how many of one address. They send nothing meanwhile.
	mostWait, mostWaitOfOne = 512, 256
	// quietTime is how long a caller from whom nothing comes keeps its place while others wait. The API server
	// sends all at once, and this machine may be slow.
	quietTime = 5 * time.Second
	// waitTime is how long a caller waits for a place. The API server waits for the answer for 10 s.
	waitTime = 8 * time.Second
)

// guard is a listener that gives places to its callers. It never ends one whose review is at work.
type guard struct {
	net.Listener
	limits

	mu           sync.Mutex
	placed, line []*caller // the oldest first
	// idle are the placed ones for whom nothing is at work.
	idle *door.Set[netip.Addr, *caller]
}

func newGuard(l net.Listener, of limits) *guard {
	return &guard{Listener: l, limits: of, idle: door.NewSet[netip.Addr, *caller]()}
}

// caller is a connection. It reads nothing before it has a place.
type caller struct {
	net.Conn
	guard *guard
	from  netip.Addr
	turn  chan struct{} // closed once it has a place, or has ended

	// The guard's mu holds these.
	since  time.Time // when something came from it last, or it had its answer
	atWork bool
	place  *door.Place[netip.Addr, *caller] // in idle; nil while it waits
}

// limits are what callers have time for. head is for the handshake and the head, and review for all of a review.
type limits struct{ quiet, wait, head, review time.Duration }

var usual = limits{quietTime, waitTime, headTime, reviewTime}

func (g *guard) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
		c := &caller{Conn: conn, guard: g, from: from.Addr().Unmap(), turn: make(chan struct{})}
		if g.admit(c, time.Now()) {
			return c, nil
		}
		reset(conn)
	}
}

// admit gives c a place, or lets it wait for one. It says no if too many wait.
func (g *guard) admit(c *caller, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tryPlace(c, now) {
		return true
	}
	if len(g.line) >= mostWait || count(g.line, c.from) >= mostWaitOfOne {
		return false
	}
	g.line = append(g.line, c)
	time.AfterFunc(g.quiet, g.next)
	time.AfterFunc(g.wait, func() {
		if g.waits(c) {
			_ = c.Close() // its reader learns that
		}
	})
	return true
}

// tryPlace gives c a place, which may be another's, and says whether c has one. The caller holds mu.
func (g *guard) tryPlace(c *caller, now time.Time) bool {
	var out *caller
	switch {
	case count(g.placed, c.from) >= mostOfOne:
		out = g.first(func(p *caller) bool { return p.from == c.from && p.quiet(now) })
	case len(g.placed) >= most:
		out = g.leavesFor(c, now)
	default:
		g.place(c, now)
		return true
	}
	if out == nil {
		return false
	}
	g.placed = slices.DeleteFunc(g.placed, func(p *caller) bool { return p == out })
	out.place.Leave()
	g.place(c, now)
	go reset(out.Conn) // which waits until nobody reads it any more
	return true
}

func (g *guard) place(c *caller, now time.Time) {
	c.since = now
	g.placed = append(g.placed, c)
	c.place = g.idle.Add(c.from, c)
	close(c.turn)
}

// leavesFor goes for a caller of an address that has fewer places: it is the oldest of the address with the most.
// Where none has many more, it is the oldest quiet one of an address that has as many. nil: c waits.
func (g *guard) leavesFor(c *caller, now time.Time) *caller {
	own := count(g.placed, c.from)
	if oldest := g.idle.OldestOfMost(); oldest != nil && g.idle.LenOf(oldest.Key()) > own+1 {
		return oldest.Conn
	}
	return g.first(func(p *caller) bool { return p.quiet(now) && g.idle.LenOf(p.from) >= own })
}

// quiet says that nothing has come from p for a while, and that nothing is at work for it.
func (c *caller) quiet(now time.Time) bool {
	return !c.atWork && now.Sub(c.since) >= c.guard.quiet
}

func (g *guard) first(is func(*caller) bool) *caller {
	if n := slices.IndexFunc(g.placed, is); n >= 0 {
		return g.placed[n]
	}
	return nil
}

func count(callers []*caller, from netip.Addr) (n int) {
	for _, c := range callers {
		if c.from == from {
			n++
		}
	}
	return n
}

// next gives places to those who wait.
func (g *guard) next() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.line = slices.DeleteFunc(g.line, func(c *caller) bool { return g.tryPlace(c, now) })
}

func (g *guard) waits(c *caller) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.line, c)
}

// Read waits for the place.
func (c *caller) Read(b []byte) (int, error) {
	<-c.turn
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.guard.mu.Lock()
		c.since = time.Now()
		c.guard.mu.Unlock()
	}
	return n, err
}

// Close gives the place to the next.
func (c *caller) Close() error {
	err := c.Conn.Close()
	c.guard.leave(c)
	return err
}

func (g *guard) leave(c *caller) {
	is := func(other *caller) bool { return other == c }
	g.mu.Lock()
	if slices.Contains(g.line, c) {
		g.line = slices.DeleteFunc(g.line, is)
		close(c.turn)
	}
	g.placed = slices.DeleteFunc(g.placed, is)
	if c.place != nil {
		c.place.Leave()
	}
	g.mu.Unlock()
	g.next()
}

// works says that the caller's review is whole, and being answered, or no longer.
func (c *caller) works(yes bool) {
	if c == nil {
		return
	}
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	c.since, c.atWork = time.Now(), yes
	switch {
	case !slices.Contains(c.guard.placed, c):
	case yes:
		c.place.Leave()
	default:
		c.place.Move(c.guard.idle, c.from)
	}
}

// awaited says that another of this address waits for a place.
func (c *caller) awaited() bool {
	if c == nil {
		return false
	}
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	return count(c.guard.line, c.from) > 0
}

type callerKey struct{}

// withCaller keeps the caller for a request's handler.
func withCaller(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, callerKey{}, callerOf(conn))
}

// callerIn is nil if the handler's server has no guard.
func callerIn(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

func callerOf(conn net.Conn) *caller {
	if t, is := conn.(*tls.Conn); is {
		conn = t.NetConn()
	}
	c, _ := conn.(*caller)
	return c
}

// note hears from the server that a request begins, or that its answer is written.
func note(conn net.Conn, state http.ConnState) {
	if state == http.StateActive || state == http.StateIdle {
		callerOf(conn).works(false)
	}
}

// reset ends a connection at once: nothing that was not read stays in the kernel.
func reset(conn net.Conn) {
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
