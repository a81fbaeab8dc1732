package notify

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Server receives notifications. Flush and Close may be called from any goroutine.
type Server struct {
	// Overhear, if there is one, is called with what a process of root's says that is not accepted. It is set before Serve.
	Overhear func(Message)

	path string
	file *os.File
	conn syscall.RawConn

	closed  atomic.Bool
	begin   sync.Once
	serving chan struct{} // closed by Serve, or by Close

	mu       sync.Mutex // held while messages are handled, so that Flush knows when they have been
	handlers handlers
	limit    limiter
}

type handlers struct {
	accept  func(pid, uid, gid int) bool
	handle  func(Message)
	refused func(Refusal)
}

// Refusal is a message that was turned away.
type Refusal struct {
	PID, UID, GID int   // the sender, by the kernel's word
	Reason        error // not accepted, or not understood
	Unreported    int   // how many refusals before this one were not logged, because they came too fast
}

// errNotAccepted is the Reason of a message whose sender was not accepted.
var errNotAccepted = errors.New("its sender is not one of ours")

// Serve handles one message after the other until Close, then it returns nil. It is called once. accept decides on the sender
// before anything is parsed. refused is called with what was turned away: ten in a row, then one a second.
//
// A message's file descriptors are closed when handle has returned, so whoever waits for its barrier (sd_notify_barrier(3)) knows
// that this message and every earlier one were handled. No handler may wait for a goroutine that calls Flush.
func (s *Server) Serve(accept func(pid, uid, gid int) bool, handle func(Message), refused func(Refusal)) error {
	s.mu.Lock()
	s.handlers = handlers{accept, handle, refused}
	s.mu.Unlock()
	s.begin.Do(func() { close(s.serving) })
	var failed error
	err := s.conn.Read(func(fd uintptr) bool {
		failed = s.drain(int(fd))
		return failed != nil
	})
	if s.closed.Load() {
		return nil
	}
	return errors.Join(err, failed)
}

// Flush returns once every message that was in the socket when it was called has been handled. A daemon's exit is judged only
// after its last words. It waits for Serve to be called; after Close it does nothing.
func (s *Server) Flush() {
	<-s.serving
	_ = s.conn.Control(func(fd uintptr) { _ = s.drain(int(fd)) }) // an error comes back in Serve
}

// Path is the value for NOTIFY_SOCKET.
func (s *Server) Path() string { return s.path }

// Close ends Serve and removes the socket.
func (s *Server) Close() error {
	s.closed.Store(true)
	defer s.begin.Do(func() { close(s.serving) })
	return errors.Join(s.file.Close(), os.Remove(s.path))
}

// drain handles messages until the socket is empty.
func (s *Server) drain(fd int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		d, err := receive(fd)
		if errors.Is(err, errEmpty) {
			return nil
		}
		if err != nil {
			return err
		}
		s.handle(d)
	}
}

func (s *Server) handle(d datagram) {
	defer d.closeFiles()
	if !s.handlers.accept(d.pid, d.uid, d.gid) {
		if m, err := d.message(); s.Overhear != nil && err == nil && d.uid == 0 {
			s.Overhear(m)
		}
		s.refuse(d, errNotAccepted)
		return
	}
	m, err := d.message()
	if err != nil {
		s.refuse(d, err)
		return
	}
	if !m.Barrier || len(d.files) != 1 {
		d.closeFiles()
	}
	s.handlers.handle(m)
}

func (s *Server) refuse(d datagram, reason error) {
	unreported, ok := s.limit.allow(time.Now())
	if ok {
		s.handlers.refused(Refusal{PID: d.pid, UID: d.uid, GID: d.gid, Reason: reason, Unreported: unreported})
	}
}
