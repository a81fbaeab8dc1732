package peerserver

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// cluster is a table and those who read it. The lines of the stream are encoded once for all readers.
// A reader holds no queue of its own, but its position in a log that all share.
type cluster struct {
	mu    sync.Mutex
	table *Table

	// log has the deltas that the readers may still need. The position of log[i] is first+i.
	log   []delta
	first uint64
	// told is the bytes of all deltas that there ever were.
	told uint64
	// snapshot is the last whole table that a reader needed, with the position of the next delta
	// and the bytes told before that.
	snapshot *snapshot
	next     uint64
	upTo     uint64

	// wake is closed when the log grows.
	wake chan struct{}
	// flushing: a timer will tell the changes. flushed is when that happened last.
	flushing bool
	flushed  time.Time

	readers map[string]*reader // by pod UID
	selves  map[string][]byte  // lines, by pod UID
	// reported is the ETag of the last report, which the Server's mu guards.
	reported string
}

type delta struct {
	line  []byte
	bytes uint64 // told up to its end
}

const (
	// mostLog bounds the log. A reader that falls behind it gets a snapshot.
	mostLog = 1 << 20
	// gather is how long a change waits for others after a quiet time.
	gather = 5 * time.Millisecond
	// perReader is the pause between two deltas for each reader. A reader costs some 17 µs of
	// processor time for each delta (one TLS record and one write(2): BenchmarkStreams). 10,000
	// readers thus get at most two deltas in a second, however many pods change: 20,000 × 17 µs is a
	// third of a core. Without the pause, 100 changes in a second would take 17 cores.
	perReader = 50 * time.Microsecond
	// mostPause bounds the pause.
	mostPause = time.Second
)

func newCluster(epoch string) *cluster {
	return &cluster{table: NewTable(epoch), wake: make(chan struct{}), readers: map[string]*reader{}, selves: map[string][]byte{}}
}

func pauseFor(readers int) time.Duration {
	return min(max(time.Duration(readers)*perReader, gather), mostPause)
}

// changed has the changes told soon. The caller holds mu.
func (c *cluster) changed() {
	if c.flushing || len(c.table.changed) == 0 && len(c.table.gone) == 0 {
		return
	}
	c.flushing = true
	time.AfterFunc(max(gather, pauseFor(len(c.readers))-time.Since(c.flushed)), c.flush)
}

// flush makes one delta of all changes, and wakes the readers.
func (c *cluster) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushing, c.flushed = false, time.Now()
	line := c.table.Delta()
	if line == nil {
		return
	}
	c.told += uint64(len(line))
	c.log = append(c.log, delta{line, c.told})
	for len(c.log) > 0 && c.told-c.log[0].bytes+uint64(len(c.log[0].line)) > mostLog {
		c.log[0] = delta{}
		c.log, c.first = c.log[1:], c.first+1
	}
	if len(c.readers) == 0 { // whoever comes gets a snapshot
		c.first += uint64(len(c.log))
		c.log = nil
	}
	close(c.wake)
	c.wake = make(chan struct{})
}

// whole is a snapshot and the position of the delta that follows it. A snapshot serves as long as the
// deltas since then are short beside it: many readers that come at once share one. Compressed it has a fifth
// of its length, and deltas are not compressed.
func (c *cluster) whole() (s *snapshot, next uint64) {
	if c.snapshot == nil || c.next < c.first || c.told-c.upTo > uint64(len(c.snapshot.line))/16 {
		c.snapshot, c.next, c.upTo = &snapshot{line: c.table.Snapshot()}, c.first+uint64(len(c.log)), c.told
	}
	return c.snapshot, c.next
}

// pending are the lines that a reader has not had, in their order, and a channel that is closed when
// there are more. A reader that needs the whole table gets it before the lines if it has a place, and
// else nothing, not even the channel.
func (c *cluster) pending(r *reader, placed bool) (whole *snapshot, lines [][]byte, wake <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !r.begun || r.next < c.first {
		if !placed {
			return nil, nil, nil
		}
		whole, r.next = c.whole()
		r.begun = true
	}
	for ; r.next < c.first+uint64(len(c.log)); r.next++ {
		lines = append(lines, c.log[r.next-c.first].line)
	}
	if self := c.selves[r.UID]; !bytes.Equal(self, r.self) {
		lines, r.self = append(lines, self), self
	}
	return whole, lines, c.wake
}

// join makes r the one reader of its pod, and returns the one before it.
func (c *cluster) join(r *reader) (former *reader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	former = c.readers[r.UID]
	c.readers[r.UID] = r
	return former
}

func (c *cluster) leave(r *reader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readers[r.UID] == r {
		delete(c.readers, r.UID)
	}
}

// setSelf keeps what one reader alone gets, and wakes it if that is new.
func (c *cluster) setSelf(uid string, self wire.Self) error {
	line, err := json.Marshal(wire.Update{Self: &self})
	if err != nil {
		return err
	}
	line = append(line, '\n')
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes.Equal(c.selves[uid], line) {
		return nil
	}
	c.selves[uid] = line
	if r := c.readers[uid]; r != nil {
		r.wake()
	}
	return nil
}

// empty: nobody is here, and nobody reads.
func (c *cluster) empty() bool {
	return len(c.table.pods) == 0 && len(c.readers) == 0 && len(c.selves) == 0
}
