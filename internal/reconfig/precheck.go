package reconfig

import (
	"context"
	"time"

	"github.com/slurmlet/slurmlet/internal/confset"
)

// precheck is a check that begins before an edit has been left in peace for Debounce. Most
// edits are complete by then, so that their check is over when they are read.
type precheck struct {
	began time.Time
	// place is where the set lay that was live then.
	place  string
	set    *confset.Set
	cancel context.CancelFunc
	over   chan struct{}
	// Inspection and err are its result, once over is closed.
	Inspection
	err error
}

const (
	// precheckCalm is how long the sources have to stay as they are before a precheck.
	precheckCalm = Debounce / 3
	// headStart is how old a precheck, or a prefetch, may be when the edit's own check
	// uses it. A slurmd that is restarted after a prefetch counts as one that took the edit.
	headStart = time.Second
)

// precheck checks what the sources hold now, if an edit would be checked at once.
func (r *Reloader) precheck(ctx context.Context) {
	now := r.seen.Load()
	if !now.Idle {
		return
	}
	set, err := confset.Read(r.Sources)
	if err != nil || set.Same(now.Live) {
		return // the edit may not be complete
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &precheck{began: time.Now(), place: r.livePlace(), set: set, cancel: cancel, over: make(chan struct{})}
	if former := r.prechecked.Swap(p); former != nil {
		go r.dismiss(former)
	}
	go func() {
		defer close(p.over)
		p.Inspection, p.err = r.checkSet(ctx, set, true)
	}()
	time.AfterFunc(headStart, func() {
		if r.prechecked.CompareAndSwap(p, nil) {
			r.dismiss(p)
		}
	})
}

// takePrecheck returns what a precheck of this set found, and false if there is none that
// counts. A refusal does not count: the sources may have changed while they were prechecked.
func (r *Reloader) takePrecheck(set *confset.Set) (Inspection, bool) {
	p := r.prechecked.Swap(nil)
	if p == nil {
		return Inspection{}, false
	}
	if p.set.Same(set) && p.place == r.livePlace() && time.Since(p.began) < headStart {
		if <-p.over; p.err == nil {
			return p.Inspection, true
		}
	}
	r.dismiss(p)
	return Inspection{}, false
}

// dismiss ends a precheck, and leaves nothing of its set.
func (r *Reloader) dismiss(p *precheck) {
	p.cancel()
	<-p.over
	if p.Staged != "" {
		r.live.Drop(p.Staged)
	}
}
