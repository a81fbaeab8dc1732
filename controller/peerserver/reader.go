package peerserver

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// reader is an agent that reads its cluster's stream.
type reader struct {
	Identity
	conn net.Conn
	// next is the position of the next delta, once begun. self is the last line of its kind.
	next  uint64
	begun bool
	self  []byte
	// returning is the last line of its kind.
	returning []byte
	// compressed: the agent takes compressed snapshots.
	compressed bool
	// poke wakes this reader alone.
	poke  chan struct{}
	ended chan struct{}
	end   func()
}

const (
	// timeToRead and leastRate bound how long an agent may take for what is written at once.
	timeToRead = 10 * time.Second
	leastRate  = 64 << 10 // bytes in a second
	// mostTogether is how much is written at once: a TLS record.
	mostTogether = 16 << 10
	// sendBuffer and receiveBuffer bound what the kernel keeps for a stream, which is twice as much.
	sendBuffer    = 32 << 10
	receiveBuffer = 8 << 10
)

func newReader(id Identity, conn net.Conn) *reader {
	if tcp := plain(conn); tcp != nil {
		_ = tcp.SetWriteBuffer(sendBuffer)
		_ = tcp.SetReadBuffer(receiveBuffer)
	}
	r := &reader{Identity: id, conn: conn, poke: make(chan struct{}, 1), ended: make(chan struct{})}
	r.end = sync.OnceFunc(func() { close(r.ended); reset(conn) })
	return r
}

func (r *reader) wake() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

var (
	heartbeat      = []byte("{}\n")
	staleHeartbeat = []byte(`{"stale":true}` + "\n")
)

// heartbeat is the line of a stream that has nothing to tell.
func (s *Server) heartbeat() []byte {
	s.count.heartbeats.Add(1)
	if s.Stale() {
		return staleHeartbeat
	}
	return heartbeat
}

// untilBeat is how long a stream is silent. Streams that began together do not beat together.
func (s *Server) untilBeat() time.Duration { return s.Heartbeat/2 + rand.N(s.Heartbeat/2) }

// tell writes to r until it ends, or does not read.
func (s *Server) tell(c *cluster, r *reader) {
	defer s.forget(r.Cluster, c)
	defer c.leave(r)
	defer r.end()
	if !s.write(r, [][]byte{streamHead}) {
		return
	}
	beat := time.NewTimer(s.untilBeat())
	defer beat.Stop()
	for {
		wake, ok := s.tellPending(c, r, beat)
		if !ok {
			return
		}
		select {
		case <-wake:
		case <-r.poke:
		case <-beat.C:
			if !s.write(r, [][]byte{s.heartbeat()}) {
				return
			}
			beat.Reset(s.untilBeat())
		case <-r.ended:
			return
		}
	}
}

// tellPending writes what r has not had, and returns what wakes it.
func (s *Server) tellPending(c *cluster, r *reader, beat *time.Timer) (wake <-chan struct{}, ok bool) {
	whole, lines, wake := c.pending(r, false)
	if wake == nil {
		leave, ok := s.place(r)
		if !ok {
			return nil, false
		}
		defer leave()
		whole, lines, wake = c.pending(r, true)
	}
	s.count.deltas.Add(uint64(len(lines)))
	if whole != nil {
		s.count.snapshots.Add(1)
		lines = slices.Insert(lines, 0, whole.text(r.compressed))
		if s.Stale() {
			lines = append(lines, staleHeartbeat)
		}
	}
	if returning := s.returningFor(r); returning != nil {
		lines = append(lines, returning)
	}
	if len(lines) == 0 {
		return wake, true
	}
	if !s.write(r, lines) {
		return nil, false
	}
	beat.Reset(s.untilBeat())
	return wake, true
}

// together joins short lines, so that they cost one write.
var together = sync.Pool{New: func() any { b := make([]byte, 0, mostTogether); return &b }}

// write is false if the agent has gone, or does not read.
func (s *Server) write(r *reader, lines [][]byte) bool {
	size := 0
	for _, line := range lines {
		size += len(line)
	}
	_ = r.conn.SetWriteDeadline(time.Now().Add(timeToRead + time.Duration(size/leastRate)*time.Second))
	buffer := together.Get().(*[]byte)
	defer together.Put(buffer)
	text := (*buffer)[:0]
	for i, line := range lines {
		if len(text)+len(line) <= mostTogether {
			text = append(text, line...)
			line = nil
		}
		if len(text) > 0 && (line != nil || i == len(lines)-1) {
			if !s.send(r, text) {
				return false
			}
			text = text[:0]
		}
		if line != nil && !s.send(r, line) {
			return false
		}
	}
	return true
}

func (s *Server) send(r *reader, text []byte) bool {
	n, err := r.conn.Write(text)
	s.count.bytes.Add(uint64(n))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.count.slow.Add(1)
		s.Log.Info("an agent does not read its stream, which ends", slog.String("pod", r.Pod), slog.String("cluster", r.Cluster))
	}
	return err == nil
}
