package peerserver

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// snapshot is a whole table as a line of the stream. It is compressed once, for all readers that accept it.
type snapshot struct {
	line  []byte
	once  sync.Once
	frame []byte
}

// accepts says whether the header Accept of a request is that of an agent that takes compressed tables.
func accepts(header string) bool { return strings.ReplaceAll(header, " ", "") == wire.Compressed }

// text returns the snapshot as the agent takes it, compressed or not.
func (s *snapshot) text(compressed bool) []byte {
	if !compressed {
		return s.line
	}
	s.once.Do(func() {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // a level that there is
		_, _ = w.Write(s.line)                          // a buffer takes all
		_ = w.Close()
		s.frame = append(fmt.Appendf(nil, "{\"gzip\":%d}\n", b.Len()), b.Bytes()...)
	})
	return s.frame
}

const (
	// mostPlaces is how many readers get a whole table at the same time: after a restart of the controller
	// all agents come within seconds, and tables on their way to thousands would fill the memory.
	mostPlaces = 64
	// timeOfPlace is how long a reader keeps its place: one that does not read keeps nobody out.
	timeOfPlace = 2 * time.Second
)

// place waits until r may have the whole table. The agent hears heartbeats meanwhile.
func (s *Server) place(r *reader) (leave func(), ok bool) {
	beat := time.NewTimer(s.untilBeat())
	defer beat.Stop()
	for {
		select {
		case s.places <- struct{}{}:
			leave := sync.OnceFunc(func() { <-s.places })
			limit := time.AfterFunc(s.timeOfPlace, leave)
			return func() { limit.Stop(); leave() }, true
		case <-beat.C:
			if !s.write(r, [][]byte{s.heartbeat()}) {
				return nil, false
			}
			beat.Reset(s.untilBeat())
		case <-r.ended:
			return nil, false
		}
	}
}
