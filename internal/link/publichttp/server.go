// Package publichttp is an HTTP server for a port that everybody reaches. It gives small
// answers, and no client can keep another one from its answer.
//
// One goroutine owns all connections and never blocks on one. A connection costs a file
// descriptor and some hundred bytes: no goroutine, no buffer. The server parses a request when
// its head is complete; until then the bytes stay in the kernel. A slow client runs out of time.
// When there are too many connections, the address with the most loses its oldest.
//
// A handler may let a client wait for its answer (Wait). Clients that have proved their names to
// the handler wait apart from strangers (WaitAs), who end no connection of theirs. A long answer is
// one text for all (Share).
//
// net/http needs a goroutine and 18 kB for each half-sent request, and has no such limits.
//
// Requests are GET or HEAD without a body. Every answer ends its connection.
package publichttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits bound what clients without a proof can have.
type Limits struct {
	// Active is how many connections there may be that ask, or read their answer.
	Active int
	// Waiting is how many strangers may wait for an answer that is not there yet (Wait), and
	// how many of those that have proved their names (WaitAs).
	Waiting int
	// Timeout is how long a client may take to ask, and to read; WaitTimeout is
	// after how long one that waits is hung up.
	Timeout, WaitTimeout time.Duration
	// Report is told of the handler's own faults.
	Report func(error)
}

// mostHead is how long the head of a request may be, in bytes.
const mostHead = 8 << 10

// Server listens on one port.
type Server struct {
	handler  http.Handler
	report   func(error)
	listener int      // the socket that listens
	poll     *os.File // an epoll(7)
	epoll    syscall.RawConn
	name     net.Addr
	ended    chan struct{}

	// Only serve's goroutine touches these.
	clients                map[int]*client // by file descriptor
	active, waiting, known clientSet
	// mostParked bounds those that wait, strangers or not, by the file descriptors that there are.
	mostParked int
	// pausedUntil is until when the server accepts nobody: it has no file descriptors left.
	pausedUntil time.Time
	events      [128]unix.EpollEvent
	head        [mostHead]byte
	reader      *bufio.Reader

	lock sync.Mutex
	todo []func()
}

// Listen lets strangers in, until Close.
func Listen(address string, handler http.Handler, limits Limits) (*Server, error) {
	l, err := listening().Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	defer l.Close() // its socket lives on
	s := &Server{
		handler: handler, report: limits.Report, listener: -1, name: l.Addr(), ended: make(chan struct{}),
		clients: map[int]*client{}, reader: bufio.NewReader(nil),
		active:     newClientSet(min(limits.Active, mostFiles()/8), limits.Timeout),
		waiting:    newClientSet(mostWaiting(limits.Waiting), limits.WaitTimeout),
		known:      newClientSet(mostWaiting(limits.Waiting), limits.WaitTimeout),
		mostParked: mostFiles() * 3 / 4,
	}
	if err := s.open(l.(*net.TCPListener)); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot listen: %w", err), s.shut())
	}
	go s.serve()
	return s, nil
}

// listening has no MPTCP, with which a connection of a stranger's could have several subflows. To ask
// for it costs each start 0.07 ms, also where the kernel has none.
func listening() *net.ListenConfig {
	options := &net.ListenConfig{Control: frugal}
	options.SetMultipathTCP(false)
	return options
}

// mostFiles is how many file descriptors this process may have: strangers leave the most of them.
func mostFiles() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 1 << 10
	}
	return int(min(l.Cur, 1<<20))
}

// mostWaiting leaves file descriptors to the others.
func mostWaiting(waiting int) int { return min(waiting, mostFiles()/2) }

// frugal bounds what the kernel keeps for a connection, which inherits it: no more than a head comes in, and what
// nobody acknowledges does not stay.
func frugal(_, _ string, c syscall.RawConn) (err error) {
	closed := c.Control(func(fd uintptr) {
		for _, o := range [][3]int{
			{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1},
			{unix.SOL_SOCKET, unix.SO_RCVBUF, 2 * mostHead},
			{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1}, // whoever waits may have lost its power
			{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 120},
			{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
			{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 4},
			{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 30_000},
		} {
			err = errors.Join(err, unix.SetsockoptInt(int(fd), o[0], o[1], o[2]))
		}
	})
	return errors.Join(closed, err)
}

func (s *Server) open(l *net.TCPListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	// it does not block, as the one of package net does not
	closed := raw.Control(func(fd uintptr) { s.listener, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err := errors.Join(closed, err); err != nil {
		return err
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // os.File waits for it as for a socket
		return errors.Join(err, unix.Close(fd))
	}
	s.poll = os.NewFile(uintptr(fd), "epoll")
	if s.epoll, err = s.poll.SyscallConn(); err != nil {
		return err
	}
	return s.watch(s.listener, unix.EPOLLIN)
}

func (s *Server) watch(fd int, events uint32) (err error) {
	closed := s.epoll.Control(func(epoll uintptr) {
		err = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
	})
	return errors.Join(closed, err)
}

// Addr returns the address on which it listens.
func (s *Server) Addr() net.Addr { return s.name }

// Close hangs up on everybody.
func (s *Server) Close() error {
	err := s.poll.Close()
	<-s.ended
	return err
}

// Do has serve's goroutine, on which the handler runs, call f. It does not wait for that, but
// whoever asks after Do has returned is answered after f.
func (s *Server) Do(f func()) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.todo = append(s.todo, f)
	_ = s.poll.SetReadDeadline(time.Unix(1, 0)) // it wakes up
}

// serve ends when poll is closed.
func (s *Server) serve() {
	defer close(s.ended)
	defer func() { _ = s.shut() }()
	for {
		s.runTodo()
		ready, err := s.ready()
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		knock := false
		for _, e := range ready {
			if e.Fd == int32(s.listener) {
				knock = true
			} else if c := s.clients[int(e.Fd)]; c != nil {
				s.handle(c, e.Events)
			}
		}
		if knock { // last: whoever comes in may get the file descriptor of one that these events tell of
			s.accept()
		}
		s.expire(time.Now())
	}
}

// runTodo calls what Do was given.
func (s *Server) runTodo() {
	for _, f := range s.takeTodo() {
		f()
	}
}

// takeTodo takes what Do was given. If that is nothing, poll wakes up when something has run out of time.
func (s *Server) takeTodo() []func() {
	s.lock.Lock()
	defer s.lock.Unlock()
	todo := s.todo
	s.todo = nil
	deadline := earliest(s.active.deadline(), s.waiting.deadline(), s.known.deadline(), s.pausedUntil)
	if len(todo) > 0 {
		deadline = time.Unix(1, 0)
	}
	_ = s.poll.SetReadDeadline(deadline)
	return todo
}

// earliest returns the first of some times. A zero time stands for never.
func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

func (s *Server) ready() ([]unix.EpollEvent, error) {
	n := 0
	err := s.epoll.Read(func(fd uintptr) bool {
		n, _ = unix.EpollWait(int(fd), s.events[:], 0)
		return n > 0
	})
	return s.events[:max(n, 0)], err
}

// accept takes a few of the connections that wait.
func (s *Server) accept() {
	for range 64 {
		fd, from, err := unix.Accept4(s.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
			s.admit(fd, from)
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
		case errors.Is(err, unix.EAGAIN):
			return
		default: // there is no room in this process, or on the machine
			if !s.evict(&s.active) && !s.evict(&s.waiting) {
				s.pause()
			}
			return
		}
	}
}

func (s *Server) pause() {
	s.pausedUntil = time.Now().Add(100 * time.Millisecond)
	_ = s.epoll.Control(func(epoll uintptr) { _ = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_DEL, s.listener, nil) })
}

func (s *Server) admit(fd int, from unix.Sockaddr) {
	if s.active.full() {
		s.evict(&s.active)
	}
	if err := s.watch(fd, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET&0xffffffff); err != nil {
		_ = unix.Close(fd)
		return
	}
	c := &client{fd: fd, from: addressOf(from)}
	s.clients[fd] = c
	s.active.add(c, time.Now())
	s.read(c) // it may have asked already
}

func addressOf(from unix.Sockaddr) netip.AddrPort {
	switch from := from.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(from.Addr), uint16(from.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(from.Addr).Unmap(), uint16(from.Port))
	}
	return netip.AddrPort{}
}

// expire hangs up on those who have had their time.
func (s *Server) expire(now time.Time) {
	for _, set := range []*clientSet{&s.active, &s.waiting, &s.known} {
		for d := set.deadline(); !d.IsZero() && !now.Before(d); d = set.deadline() {
			s.reset(set.Oldest().Conn)
		}
	}
	if !s.pausedUntil.IsZero() && !now.Before(s.pausedUntil) {
		s.pausedUntil = time.Time{}
		_ = s.watch(s.listener, unix.EPOLLIN)
	}
}

func (s *Server) evict(set *clientSet) bool {
	oldest := set.OldestOfMost()
	if oldest == nil {
		return false
	}
	s.reset(oldest.Conn)
	return true
}

// reset leaves nothing of a connection in the kernel, whatever its other end does.
func (s *Server) reset(c *client) {
	_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	s.close(c)
}

func (s *Server) close(c *client) {
	c.leave()
	c.inSet.remove(c)
	delete(s.clients, c.fd)
	_ = unix.Close(c.fd)
}

// shut leaves nothing open.
func (s *Server) shut() error {
	for _, c := range s.clients {
		s.close(c)
	}
	var err error
	if s.listener >= 0 {
		err = unix.Close(s.listener)
	}
	if s.poll != nil {
		err = errors.Join(err, s.poll.Close())
	}
	return err
}

// hasHead returns how long the head of a request is, 0 if it is not whole.
func hasHead(text []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(text[at:], '\n')
		if i < 0 {
			return 0
		}
		at += i + 1
		for _, end := range []string{"\n", "\r\n"} {
			if bytes.HasPrefix(text[at:], []byte(end)) {
				return at + len(end)
			}
		}
	}
}
