package publichttp

import (
	"net/http"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Waiter is a client that waits for its answer. Only the server's goroutine touches it.
type Waiter struct {
	tag    any
	name   string
	client *client // nil when it has gone, or has its answer
}

// Wait puts the answer off until Answer or AnswerOne; w is that of a handler of a Server's, and
// Answer gives the tag back.
func Wait(w http.ResponseWriter, tag any) *Waiter { return WaitAs(w, "", tag) }

// WaitAs is Wait for a client that has proved to the handler that it has a name. Strangers never
// take its place. Where too many wait, the name with the most connections loses its oldest.
func WaitAs(w http.ResponseWriter, name string, tag any) *Waiter {
	waiter := &Waiter{tag: tag, name: name}
	w.(*response).waiter = waiter
	return waiter
}

// Waiters are strangers that wait for the same answer, so that nobody else is looked at when it is
// there. Only the server's goroutine touches them.
type Waiters struct {
	all []*Waiter
	// tidy is at how many they are looked through for those that have gone.
	tidy int
}

// leastTidied is at how many Waiters are looked through at least.
const leastTidied = 64

// Wait puts the answer off until AnswerAll; w is that of a handler of a Server's.
func (g *Waiters) Wait(w http.ResponseWriter) {
	if len(g.all) >= max(g.tidy, leastTidied) {
		g.all = slices.DeleteFunc(g.all, (*Waiter).Gone)
		g.tidy = 2 * len(g.all)
	}
	g.all = append(g.all, Wait(w, nil))
}

// AnswerAll answers those that wait still, and forgets all of them. Do calls it.
func (s *Server) AnswerAll(g *Waiters, answer func(http.ResponseWriter)) {
	for _, w := range g.all {
		s.AnswerOne(w, answer)
	}
	*g = Waiters{}
}

// ServerOf is the server whose handler w is for.
func ServerOf(w http.ResponseWriter) *Server { return w.(*response).server }

// Gone says whether the client waits no more. Do calls it.
func (w *Waiter) Gone() bool { return w.client == nil }

// leave ends the client's waiting.
func (c *client) leave() {
	if c.waiter != nil {
		c.waiter.client, c.waiter = nil, nil
	}
}

// park lets a client wait.
func (s *Server) park(c *client, w *Waiter) {
	if c.halfClosed {
		s.close(c)
		return
	}
	set := &s.waiting
	if w.name != "" {
		set = &s.known
	}
	if !s.makeRoom(set) {
		s.reset(c)
		return
	}
	c.inSet.remove(c)
	c.phase, c.waiter, w.client = parked, w, c
	set.add(c, time.Now())
	_ = unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 0) // a single probe that is lost ends nothing
}

// makeRoom makes room for one more in a set. Strangers make room for others, and not the other
// way round.
func (s *Server) makeRoom(set *clientSet) bool {
	if s.waiting.Len()+s.known.Len() >= s.mostParked && !s.evict(&s.waiting) {
		return s.evict(set)
	}
	if set.full() {
		s.evict(set)
	}
	return true
}

// Answer offers each of those that wait to answer, by its tag. A client for which that returns
// true gets what was written. Do calls it.
func (s *Server) Answer(answer func(tag any, w http.ResponseWriter) bool) {
	for _, set := range []*clientSet{&s.known, &s.waiting} {
		for c := range set.All() { // an answer may remove it
			if c.waiter == nil {
				continue
			}
			tag, answered := c.waiter.tag, true // a fault is an answer
			a := s.compose("one that waits", func(w http.ResponseWriter) { answered = answer(tag, w) })
			if answered {
				s.respond(c, a.text(c.headOnly))
			}
		}
	}
}

// AnswerOne answers one that waits, if it does still. Do calls it.
func (s *Server) AnswerOne(w *Waiter, answer func(http.ResponseWriter)) {
	if w.Gone() {
		return
	}
	a := s.compose("one that waits", answer)
	s.respond(w.client, a.text(w.client.headOnly))
}

// SetWaiting changes how many may wait, and returns for how many there are file descriptors. Do calls
// it.
func (s *Server) SetWaiting(waiting int) (most int) {
	s.waiting.limit, s.known.limit = mostWaiting(waiting), mostWaiting(waiting)
	for _, set := range []*clientSet{&s.waiting, &s.known} {
		for set.Len() > set.limit {
			s.evict(set)
		}
	}
	return s.known.limit
}

// CountWaiting returns the number of clients that wait. Only a function of Do may call it.
func (s *Server) CountWaiting() (n int) {
	for _, c := range s.clients {
		if c.waiter != nil {
			n++
		}
	}
	return n
}

// CountKnown is how many wait that have proved their names, at most. Handlers and Do call it.
func (s *Server) CountKnown() int { return s.known.Len() }

// Names is how many names have been proved of those that wait. Handlers and Do call it.
func (s *Server) Names() int { return s.known.CountOwners() }

// Waits says whether one waits that has proved this name, at this address. Handlers and Do call it.
func (s *Server) Waits(name string, from netip.Addr) bool {
	for c := range s.known.AllOf(peerKey{name: name}) {
		if c.from.Addr() == from {
			return true
		}
	}
	return false
}

// KnownNames are the names that have been proved and wait. Do calls it.
func (s *Server) KnownNames() []string {
	var all []string
	for key := range s.known.Keys() {
		all = append(all, key.name)
	}
	slices.Sort(all)
	return all
}

// RecentNames are the names that have been proved and wait, or have waited less than within ago: who waits
// asks anew now and then, and is away between two questions. Do calls it.
func (s *Server) RecentNames(within time.Duration) []string {
	if s.known.left == nil {
		s.known.left = map[string]time.Time{} // from now on somebody wants to know
	}
	all := s.known.names(within)
	slices.Sort(all)
	return all
}

// Doubt has the kernel find out within four seconds whether those live who wait under a name: it ends the
// connections of those whose machines do not answer. Do calls it.
func (s *Server) Doubt(name string) {
	for c := range s.known.AllOf(peerKey{name: name}) {
		for _, o := range [][2]int{{unix.TCP_KEEPINTVL, 1}, {unix.TCP_KEEPCNT, 3}, {unix.TCP_KEEPIDLE, 1}} {
			_ = unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, o[0], o[1]) // it is asked in two minutes then
		}
	}
}
