package agent

import (
	"context"
	"os"
	"time"

	"github.com/slurmlet/slurmlet/internal/confset"
)

// rehearsal is a check that is made while an edit is left in peace: most edits are
// complete long before that time is over, and their check has been made then.
type rehearsal struct {
	began time.Time
	// live is the configuration that it was compared with.
	live   string
	set    *confset.Set
	cancel context.CancelFunc
	over   chan struct{}
	inspection
	err error
}

// rehearsalCalm is how long the sources have to stay as they are before a rehearsal.
const rehearsalCalm = Debounce / 3

// rehearse checks what the sources hold now, at a time at which an edit would be
// checked at once.
func (a *Agent) rehearse() {
	if !a.atRest() {
		return
	}
	set, err := confset.Read(a.conf.sources)
	if err != nil || set.Same(a.status.Load().Conf.live) {
		return // it may be complete soon
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &rehearsal{began: time.Now(), live: a.livePlace(), set: set, cancel: cancel, over: make(chan struct{})}
	if former := a.conf.rehearsed.Swap(r); former != nil {
		go a.dismiss(former)
	}
	go func() {
		defer close(r.over)
		r.inspection, r.err = a.checkSet(ctx, set, true)
	}()
	time.AfterFunc(foresight, func() {
		if a.conf.rehearsed.CompareAndSwap(r, nil) {
			a.dismiss(r)
		}
	})
}

// rehearsedSet is the rehearsal of a set, nil where there was none that counts. One
// that was refused is checked once more: it may have met what was changed at that time.
func (a *Agent) rehearsedSet(set *confset.Set) *rehearsal {
	r := a.conf.rehearsed.Swap(nil)
	if r == nil {
		return nil
	}
	if r.set.Same(set) && r.live == a.livePlace() && time.Since(r.began) < foresight {
		if <-r.over; r.err == nil {
			return r
		}
	}
	a.dismiss(r)
	return nil
}

func (a *Agent) dismiss(r *rehearsal) {
	r.cancel()
	<-r.over
	if r.staged != "" {
		a.conf.live.Drop(r.staged)
	}
}

// livePlace is another for each set that is put in place.
func (a *Agent) livePlace() string {
	target, _ := os.Readlink(a.conf.live.Current())
	return target
}
