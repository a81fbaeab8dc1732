package importer

import (
	"io"
	"sync"
)

// ahead reads in a goroutine of its own, so that what is before it and what is behind it in a chain of readers use two
// processors.
type ahead struct {
	full, free chan []byte
	err        error // why full is closed
	now, whole []byte
	stop       chan struct{}
	once       sync.Once
	ended      sync.WaitGroup
}

// The pieces that are on their way, and how many.
const (
	piece  = 256 << 10
	pieces = 4
)

func readAhead(r io.Reader) *ahead {
	a := &ahead{full: make(chan []byte, pieces), free: make(chan []byte, pieces), stop: make(chan struct{})}
	for range pieces {
		a.free <- make([]byte, piece)
	}
	a.ended.Go(func() { a.run(r) })
	return a
}

func (a *ahead) run(r io.Reader) {
	defer close(a.full)
	for a.err == nil {
		var to []byte
		select {
		case <-a.stop:
			a.err = io.ErrClosedPipe
			return
		case to = <-a.free:
		}
		n := 0
		for n < len(to) && a.err == nil { // decompressors give little at once
			var got int
			got, a.err = r.Read(to[n:])
			n += got
		}
		a.full <- to[:n] // it has room for all
	}
}

func (a *ahead) Read(p []byte) (int, error) {
	for len(a.now) == 0 {
		if a.whole != nil {
			a.free <- a.whole[:piece]
			a.whole = nil
		}
		next, more := <-a.full
		if !more {
			return 0, a.err
		}
		a.now, a.whole = next, next
	}
	n := copy(p, a.now)
	a.now = a.now[n:]
	return n, nil
}

// end ends the goroutine, and waits for it: what it reads from must have been ended before.
func (a *ahead) end() {
	a.once.Do(func() { close(a.stop) })
	for range a.full { //nolint:revive // until it is closed
	}
	a.ended.Wait()
}
