package sack

import (
	"cmp"
	"container/list"
	"io"
	"slices"
	"sync"
	"time"
)

// limits are how many connections there may be.
type limits struct {
	// silent is how many connections of a uid may wait for their request: the oldest is ended for another. all is how many
	// a uid may have, with those whose request waits for a place.
	silent, all int
	// places are for requests of one uid, common for those of all uids at once, but for the uids apart.
	places, common int
	// most is how many connections there may be.
	most int
}

// usual leaves 22 of the 150 connections that the daemon serves at once: places for root and SlurmUser are beside common.
var usual = limits{silent: 64, all: 512, places: 16, common: 96, most: 2048}

// remembered is for how long the status says that a uid's connections were ended.
const remembered = time.Minute

// visitor is one connection.
type visitor struct {
	conn io.Closer
	uid  uint32
	// waits is its place among those that have not said all of their request; nil: it has.
	waits *list.Element
}

// holder is a uid.
type holder struct {
	silent list.List
	all    int
	places chan struct{}
	// ended counts its connections that were ended, the last one at last.
	ended int
	last  time.Time
}

// shares know who has which connections.
type shares struct {
	limits
	// apart are uids that have places of their own.
	apart  []uint32
	common chan struct{}
	now    func() time.Time

	lock    sync.Mutex
	holders map[uint32]*holder
	total   int
	ended   int64
}

func newShares(l limits, apart ...uint32) *shares {
	return &shares{limits: l, apart: apart, common: make(chan struct{}, l.common), now: time.Now, holders: map[uint32]*holder{}}
}

// admit takes a connection in. It returns the one that ends for it, nil for none, which may be v itself.
func (s *shares) admit(v *visitor) *visitor {
	s.lock.Lock()
	defer s.lock.Unlock()
	h := s.holders[v.uid]
	if h == nil {
		s.forget()
		h = &holder{places: make(chan struct{}, s.places)}
		s.holders[v.uid] = h
	}
	h.all++
	s.total++
	v.waits = h.silent.PushBack(v)
	switch {
	case h.all > s.all:
		return s.end(h, v)
	case h.silent.Len() > s.silent:
		return s.end(h, h.silent.Front().Value.(*visitor))
	case s.total > s.most:
		greedy := s.greediest()
		return s.end(greedy, greedy.silent.Front().Value.(*visitor))
	}
	return nil
}

// greediest has the most connections without a request. The one that was admitted last has one.
func (s *shares) greediest() (greedy *holder) {
	for _, h := range s.holders {
		if h.silent.Len() > 0 && (greedy == nil || h.silent.Len() > greedy.silent.Len()) {
			greedy = h
		}
	}
	return greedy
}

// end counts the end of a connection. Whoever serves it leaves.
func (s *shares) end(h *holder, v *visitor) *visitor {
	h.ended++
	s.ended++
	h.last = s.now()
	s.heard(h, v)
	return v
}

func (*shares) heard(h *holder, v *visitor) {
	if v.waits != nil {
		h.silent.Remove(v.waits)
		v.waits = nil
	}
}

// asked: the request of v is complete.
func (s *shares) asked(v *visitor) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.heard(s.holders[v.uid], v)
}

// late: v has not said its request in time. A connection that was ended before counts once.
func (s *shares) late(v *visitor) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if v.waits != nil {
		s.end(s.holders[v.uid], v)
	}
}

func (s *shares) leave(v *visitor) {
	s.lock.Lock()
	defer s.lock.Unlock()
	h := s.holders[v.uid]
	s.heard(h, v)
	h.all--
	s.total--
	if h.all == 0 && h.ended == 0 {
		delete(s.holders, v.uid)
	}
}

// forget forgets the uids that have no connections and have been heard of for the last time a while ago.
func (s *shares) forget() {
	for uid, h := range s.holders {
		if s.now().Sub(h.last) < remembered {
			continue
		}
		h.ended = 0
		if h.all == 0 {
			delete(s.holders, uid)
		}
	}
}

// place waits for a place behind the door, and returns what gives it back; nil if done is closed before.
func (s *shares) place(v *visitor, done <-chan struct{}) (leave func()) {
	s.lock.Lock()
	places := []chan struct{}{s.holders[v.uid].places}
	s.lock.Unlock()
	if !slices.Contains(s.apart, v.uid) {
		places = append(places, s.common)
	}
	for i, place := range places {
		select {
		case place <- struct{}{}:
		case <-done:
			for _, taken := range places[:i] {
				<-taken
			}
			return nil
		}
	}
	return func() {
		for _, place := range places {
			<-place
		}
	}
}

// mostHolders are listed.
const mostHolders = 10

func (s *shares) status() Status {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.forget()
	shown := Status{Connections: s.total, Ended: s.ended}
	for uid, h := range s.holders {
		if h.ended > 0 {
			shown.Crowding = append(shown.Crowding, Holder{uid, h.all, h.ended})
		}
	}
	slices.SortFunc(shown.Crowding, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Connections, a.Connections), cmp.Compare(b.Ended, a.Ended), cmp.Compare(a.UID, b.UID))
	})
	shown.Crowding = shown.Crowding[:min(len(shown.Crowding), mostHolders)]
	return shown
}
