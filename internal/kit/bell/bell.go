// Package bell has goroutines wait for the next time that something happens.
package bell

import "sync"

// Bell wakes up all who wait for the next ring. The zero Bell is ready.
type Bell struct {
	lock sync.Mutex
	rung chan struct{}
}

// Next is closed at the next ring.
func (b *Bell) Next() <-chan struct{} {
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

// Ring wakes up all who wait.
func (b *Bell) Ring() {
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}
