//go:build e2e

package elastic

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// meeting has stories that are played beside each other do one thing together, as soon as all have come to it. It is
// not done where nobody comes.
type meeting struct {
	do func() error

	lock    sync.Mutex
	missing int
	held    bool          // somebody has come
	nearly  chan struct{} // closed when one is missing
	done    chan struct{}
	err     error
}

func newMeeting(stories int, do func() error) *meeting {
	m := &meeting{do: do, missing: stories + 1, nearly: make(chan struct{}), done: make(chan struct{})}
	m.count(false)
	return m
}

func (m *meeting) count(come bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.missing--
	m.held = m.held || come
	if m.missing == 1 {
		close(m.nearly)
	}
	if m.missing == 0 {
		if m.held {
			m.err = m.do()
		}
		close(m.done)
	}
}

// seat is a story's at a meeting. One that has ended is not waited for.
type seat struct {
	*meeting
	once sync.Once
}

func (m *meeting) seat() *seat { return &seat{meeting: m} }

func (s *seat) leave() { s.once.Do(func() { s.count(false) }) }

// come waits until all have come and the thing is done.
func (s *seat) come() error {
	s.once.Do(func() { s.count(true) })
	<-s.done
	return s.err
}

// last waits until all others have come.
func (s *seat) last() { <-s.nearly }

// beside plays stories at the same time, and tells how long each took.
func beside(of settings, names []string, play func(i int) error) error {
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			began := time.Now()
			if err := play(i); err != nil {
				errs[i] = fmt.Errorf("%s: %w", name, err)
				return
			}
			fmt.Printf("%s, Slurm %s:     %s: %.2f s\n", of.Story, of.Version, name, time.Since(began).Seconds())
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
