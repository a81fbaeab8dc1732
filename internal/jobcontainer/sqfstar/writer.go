package sqfstar

import (
	"errors"
	"io"
)

// writer gathers what is written, for a program that reads it through a pipe.
type writer struct {
	to  io.Writer
	has []byte
}

// The program ends at the first of the two blocks of zeros that end a tar, and may be gone before the second one comes.
// So both are held back, and written as one: a pipe takes as much whole or not at all (PIPE_BUF).
const (
	most = 256 << 10
	last = 2 * 512
)

// Write keeps the last bytes for what follows.
func (w *writer) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		if len(w.has) == cap(w.has) {
			if err := w.flush(last); err != nil {
				return written, err
			}
		}
		n := min(len(p), cap(w.has)-len(w.has))
		w.has = append(w.has, p[:n]...)
		p, written = p[n:], written+n
	}
	return written, nil
}

// flush writes all but some bytes.
func (w *writer) flush(but int) error {
	n := max(len(w.has)-but, 0)
	_, err := w.to.Write(w.has[:n])
	w.has = w.has[:copy(w.has, w.has[n:])]
	return err
}

// end writes what has been kept.
func (w *writer) end() error {
	err := w.flush(last)
	return errors.Join(err, w.flush(0))
}
