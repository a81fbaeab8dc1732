package publichttp

import (
	"net/http"
	"net/netip"
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
	c.set.remove(c)
	c.phase, c.waiter, w.client = parked, w, c
	set.add(c, time.Now())
	_ = unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 0) // a single probe that is lost ends nothing
}

// makeRoom makes room for one more in a set. Strangers make room for others, and not the other
// way round.
func (s *Server) makeRoom(set *clientSet) bool {
	if s.waiting.byAge.Len()+s.known.byAge.Len() >= s.mostParked && !s.evict(&s.waiting) {
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
		for e := set.byAge.Front(); e != nil; {
			c := e.Value.(*client)
			e = e.Next() // an answer may remove it
			if a := s.newResponse(); c.waiter != nil && answer(c.waiter.tag, a) {
				s.respond(c, a.text(false))
			}
		}
	}
}

// AnswerOne answers one that waits, if it does still. Do calls it.
func (s *Server) AnswerOne(w *Waiter, answer func(http.ResponseWriter)) {
	if w.Gone() {
		return
	}
	a := s.newResponse()
	answer(a)
	s.respond(w.client, a.text(false))
}

// SetWaiting changes how many may wait. Do calls it.
func (s *Server) SetWaiting(waiting int) {
	s.waiting.limit, s.known.limit = mostWaiting(waiting), mostWaiting(waiting)
	for _, set := range []*clientSet{&s.waiting, &s.known} {
		for set.byAge.Len() > set.limit {
			s.evict(set)
		}
	}
}

// Waiting is how many wait. Do calls it.
func (s *Server) Waiting() (n int) {
	for _, c := range s.clients {
		if c.waiter != nil {
			n++
		}
	}
	return n
}

// Known is how many wait that have proved their names, at most. Handlers and Do call it.
func (s *Server) Known() int { return s.known.byAge.Len() }

// Waits says whether one waits that has proved this name, at this address. Handlers and Do call it.
func (s *Server) Waits(name string, from netip.Addr) bool {
	p := s.known.peers[peerKey{name: name}]
	if p == nil {
		return false
	}
	for e := p.clients.Front(); e != nil; e = e.Next() {
		if e.Value.(*client).from.Addr() == from {
			return true
		}
	}
	return false
}
