// Package outlet writes lines to a place that may stand still: a pipe that nobody
// reads costs lines, and never time.
package outlet

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Outlet is a queue before a writer. It is safe for concurrent use.
type Outlet struct {
	to       io.Writer
	most     int
	lostLine func(lost int) []byte
	lost     atomic.Int64

	mu   sync.Mutex
	text []byte // whole lines that wait
	// unreported are lines that were lost, and full says that those that come are lost, too,
	// so that the line about them stands where they would be.
	unreported int
	full       bool
	// torn: the last line that went out is not whole.
	torn bool
	more chan struct{} // something waits
	done chan struct{} // closed when nothing does any more; nil: nothing does
}

// New starts to write to a place. Of what waits it keeps most bytes, and as much of
// what is being written; a line that is longer is taken where nothing waits. lostLine
// makes the line that says how many were lost.
func New(to io.Writer, most int, lostLine func(lost int) []byte) *Outlet {
	o := &Outlet{to: to, most: most, lostLine: lostLine, more: make(chan struct{}, 1)}
	go o.serve()
	return o
}

// Lost counts the lines that were lost since New.
func (o *Outlet) Lost() int64 { return o.lost.Load() }

// Write takes whole lines, or loses them. It never waits and has no error.
func (o *Outlet) Write(lines []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.full = o.full || len(o.text) > 0 && len(o.text)+len(lines) > o.most
	if o.full {
		o.lose(lines)
		return len(lines), nil
	}
	o.text = append(o.text, lines...)
	if o.done == nil {
		o.done = make(chan struct{})
	}
	select {
	case o.more <- struct{}{}:
	default: // it is known
	}
	return len(lines), nil
}

// Flush waits until what was written is out, or cannot be, and no longer than limit.
func (o *Outlet) Flush(limit time.Duration) {
	o.mu.Lock()
	done := o.done
	o.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-time.After(limit):
	}
}

func (o *Outlet) serve() {
	for range o.more {
		for text := o.take(); text != nil; text = o.take() {
			if n, err := o.to.Write(text); err != nil {
				o.failed(text[:n], text[n:])
			}
		}
	}
}

// take returns what is to be written, nil for nothing.
func (o *Outlet) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.text) == 0 {
		if o.done != nil {
			close(o.done)
			o.done = nil
		}
		return nil
	}
	text := o.text
	switch {
	case o.full:
		text = append(text, o.lostLine(o.unreported)...)
	case o.unreported > 0: // the writer has failed before
		text = append(o.lostLine(o.unreported), text...)
	}
	if o.torn {
		text = append([]byte("\n"), text...)
	}
	o.text, o.unreported, o.full, o.torn = nil, 0, false, false
	return text
}

// failed: the writer has taken a part.
func (o *Outlet) failed(out, rest []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.torn = len(out) > 0 && !bytes.HasSuffix(out, []byte("\n"))
	o.lose(rest)
}

// lose is called with mu held.
func (o *Outlet) lose(lines []byte) {
	n := bytes.Count(lines, []byte("\n"))
	o.unreported += n
	o.lost.Add(int64(n))
}
