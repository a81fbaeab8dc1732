package publichttp

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/link/door"
)

// client is a connection.
type client struct {
	fd    int
	from  netip.AddrPort
	phase phase
	// waiter is not nil while it waits.
	waiter *Waiter
	// rest is what the kernel has not taken yet of the answer, in its parts.
	rest [][]byte
	// headOnly: it asks for no body (HEAD).
	headOnly bool
	// halfClosed: the other end says nothing more, though it may listen (shutdown(2)).
	halfClosed bool

	inSet *clientSet
	place *door.Place[peerKey, *client]
	since time.Time
}

type phase int

const (
	reading phase = iota
	parked
	writing
)

// handle does what events on a connection lead to.
func (s *Server) handle(c *client, events uint32) {
	c.halfClosed = c.halfClosed || events&unix.EPOLLRDHUP != 0
	switch {
	case events&(unix.EPOLLERR|unix.EPOLLHUP) != 0:
		s.close(c)
	case c.phase == reading && events&(unix.EPOLLIN|unix.EPOLLRDHUP) != 0:
		s.read(c)
	case c.phase == parked && events&(unix.EPOLLIN|unix.EPOLLRDHUP) != 0: // it is gone, or says what nobody has asked
		s.reset(c)
	case c.phase == writing:
		s.flush(c)
	}
}

// read answers if the request's head is whole.
func (s *Server) read(c *client) {
	n, _, err := unix.Recvfrom(c.fd, s.head[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return
	case err != nil || n == 0:
		s.close(c)
		return
	}
	size := hasHead(s.head[:n])
	switch {
	case size > 0:
		_, _ = unix.Read(c.fd, s.head[:size]) // what a socket has not given away resets it at its end
		s.parse(c, s.head[:size], n > size)
	case n == len(s.head):
		s.respond(c, refusal(http.StatusRequestHeaderFieldsTooLarge))
	case c.halfClosed:
		s.close(c)
	}
}

func (s *Server) parse(c *client, head []byte, more bool) {
	s.reader.Reset(bytes.NewReader(head))
	r, err := http.ReadRequest(s.reader)
	switch {
	case err != nil:
		s.respond(c, refusal(http.StatusBadRequest))
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		s.respond(c, refusal(http.StatusMethodNotAllowed))
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0 || more:
		s.respond(c, refusal(http.StatusRequestEntityTooLarge))
	default:
		c.headOnly = r.Method == http.MethodHead
		s.runTodo() // Do may have been called since the last look at who is there
		r.RemoteAddr = c.from.String()
		a := s.call(r)
		if a.waiter != nil {
			s.park(c, a.waiter)
			return
		}
		s.respond(c, a.text(c.headOnly))
	}
}

func (s *Server) call(r *http.Request) *response {
	return s.compose(r.URL.Path, func(w http.ResponseWriter) { s.handler.ServeHTTP(w, r) })
}

// compose outlives a fault of the handler's: this is the process that all others depend on.
func (s *Server) compose(what string, answer func(http.ResponseWriter)) (a *response) {
	a = s.newResponse()
	defer func() {
		if fault := recover(); fault != nil {
			s.report(fmt.Errorf("cannot answer %s: %v", what, fault))
			a = &response{header: http.Header{}, code: http.StatusInternalServerError}
		}
	}()
	answer(a)
	return a
}

// respond writes what the kernel takes. The connection counts as active until the
// other end has read it all: a kernel keeps what nobody reads for minutes.
func (s *Server) respond(c *client, text [][]byte) {
	c.leave()
	c.phase, c.rest = writing, text
	s.flush(c)
}

func (s *Server) flush(c *client) {
	for len(c.rest) > 0 {
		n, err := unix.Writev(c.fd, c.rest)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil:
			s.close(c)
			return
		default:
			if c.rest = without(c.rest, n); len(c.rest) == 0 {
				_ = unix.Shutdown(c.fd, unix.SHUT_WR)
			}
		}
	}
	if c.halfClosed {
		s.close(c)
	}
}

// without returns what follows the first n bytes, and no part that is empty. It changes only the
// list of parts.
func without(parts [][]byte, n int) [][]byte {
	for len(parts) > 0 {
		if n < len(parts[0]) {
			parts[0] = parts[0][n:]
			return parts
		}
		n -= len(parts[0])
		parts = parts[1:]
	}
	return nil
}

// response is an http.ResponseWriter that writes later.
type response struct {
	header http.Header
	code   int
	shared []byte
	body   bytes.Buffer
	server *Server
	waiter *Waiter
}

func (s *Server) newResponse() *response {
	return &response{header: http.Header{}, code: http.StatusOK, server: s}
}

func (a *response) Header() http.Header            { return a.header }
func (a *response) WriteHeader(code int)           { a.code = code }
func (a *response) Write(text []byte) (int, error) { return a.body.Write(text) }

func (a *response) WriteString(text string) (int, error) { return a.body.WriteString(text) }

// Share begins the body with a text that many clients get, and that nobody changes. A client that
// reads slowly costs no copy of it. w may be of another server, which writes it.
func Share(w http.ResponseWriter, text []byte) {
	if a, ours := w.(*response); ours {
		a.shared = text
		return
	}
	_, _ = w.Write(text) // the reader has gone
}

func refusal(code int) [][]byte {
	a := response{header: http.Header{}, code: code}
	fmt.Fprintln(&a, http.StatusText(code))
	return a.text(false)
}

// text is the answer as it is sent: its head and its own body, and between them what it shares.
func (a *response) text(headOnly bool) [][]byte {
	var b bytes.Buffer
	if a.header.Get("Content-Type") == "" {
		a.header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	a.header.Set("Content-Length", fmt.Sprint(len(a.shared)+a.body.Len()))
	a.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	a.header.Set("Connection", "close")
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", a.code, http.StatusText(a.code))
	_ = a.header.Write(&b) // to memory
	b.WriteString("\r\n")
	switch {
	case headOnly:
		return [][]byte{b.Bytes()}
	case a.shared == nil:
		_, _ = a.body.WriteTo(&b)
		return [][]byte{b.Bytes()}
	}
	return [][]byte{b.Bytes(), a.shared, a.body.Bytes()}
}
