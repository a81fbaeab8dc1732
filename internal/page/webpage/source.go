package webpage

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
)

// source has the last facts. It asks slurmctld's agent only while somebody looks: before a page is
// served, and all the time while somebody gets events.
type source struct {
	ask func(context.Context) (*pagefacts.Facts, error)

	lock    sync.Mutex
	now     state
	asked   time.Time     // when the last answer came
	asking  chan struct{} // closed when the answer is there; nil: nobody asks
	watched int           // streams
	keeping bool          // keepAsking runs
	changed chan struct{} // closed at the next change
}

// state is what pages are made of. Version is another one for each change.
type state struct {
	version int
	cluster *cluster // nil: there are no facts yet
	fault   string   // why the facts are old
}

const (
	// pause is how often the agent is asked while somebody looks. It has an interval of its own
	// for slurmctld.
	pause = 5 * time.Second
	// askLimit is for 100,000 jobs on a slow machine.
	askLimit = 60 * time.Second
	// pageWait is how long a page waits for an answer before it shows the last one.
	pageWait = 5 * time.Second
)

func newSource(ask func(context.Context) (*pagefacts.Facts, error)) *source {
	return &source{ask: ask, changed: make(chan struct{})}
}

// present is what a page shows: not older than some seconds, if the agent answers in time.
func (s *source) present(ctx context.Context) state {
	s.lock.Lock()
	if s.asking == nil && time.Since(s.asked) >= pause {
		s.begin()
	}
	asking, fresh := s.asking, time.Since(s.asked) < 2*pause
	s.lock.Unlock()
	if asking != nil && !fresh {
		ctx, cancel := context.WithTimeout(ctx, pageWait)
		defer cancel()
		select {
		case <-asking:
		case <-ctx.Done():
		}
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.now
}

// begin asks, and has the lock.
func (s *source) begin() {
	asking := make(chan struct{})
	s.asking = asking
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), askLimit)
		defer cancel()
		facts, err := s.ask(ctx)
		var next *cluster
		if err == nil {
			next = newCluster(facts)
		}
		s.lock.Lock()
		defer s.lock.Unlock()
		s.asking, s.asked = nil, time.Now()
		s.take(next, err)
		close(asking)
	}()
}

// take makes an answer the present one.
func (s *source) take(next *cluster, err error) {
	fault := ""
	if err != nil {
		fault = plain(err.Error(), mostText)
		next = s.now.cluster
	}
	if s.now.version > 0 && fault == s.now.fault && same(s.now.cluster, next) {
		return
	}
	s.now = state{s.now.version + 1, next, fault}
	close(s.changed)
	s.changed = make(chan struct{})
}

// same: the agent has sent nothing new.
func same(a, b *cluster) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	if len(a.view.Readings) != len(b.view.Readings) {
		return false
	}
	for family, r := range a.view.Readings {
		if other := b.view.Readings[family]; !r.At.Equal(other.At) || (r.Err == nil) != (other.Err == nil) {
			return false
		}
	}
	return a.facts.Agent == b.facts.Agent && a.facts.FollowersUnknown == b.facts.FollowersUnknown &&
		reflect.DeepEqual(a.facts.Conf, b.facts.Conf) && reflect.DeepEqual(a.facts.Followers, b.facts.Followers)
}

// watch has the agent asked until the context ends. It calls news with each version but the one
// that was seen, and with -1 where there has been nothing new for a while.
func (s *source) watch(ctx context.Context, seen int, news func(version int) error) {
	s.lock.Lock()
	s.watched++
	if !s.keeping {
		s.keeping = true
		go s.keepAsking()
	}
	s.lock.Unlock()
	defer func() {
		s.lock.Lock()
		s.watched--
		s.lock.Unlock()
	}()
	beats := time.NewTicker(beat)
	defer beats.Stop()
	for {
		s.lock.Lock()
		version, changed := s.now.version, s.changed
		s.lock.Unlock()
		if version != seen {
			if news(version) != nil {
				return
			}
			seen = version
		}
		select {
		case <-ctx.Done():
			return
		case <-beats.C:
			if news(-1) != nil {
				return
			}
		case <-changed:
		}
	}
}

// keepAsking ends at the first tick at which nobody watches.
func (s *source) keepAsking() {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		s.lock.Lock()
		if s.watched == 0 {
			s.keeping = false
			s.lock.Unlock()
			return
		}
		if s.asking == nil && time.Since(s.asked) >= pause-time.Second {
			s.begin()
		}
		s.lock.Unlock()
		<-tick.C
	}
}
