// Package door says who leaves where there are too many connections: the oldest of whoever has the most. Somebody with
// thousands of connections keeps nobody else out, and many behind one address (NAT) may use all the room that is left.
// Each port has its own limits, and its own idea of whose a connection is.
package door

import (
	"container/heap"
	"container/list"
	"iter"
	"sync/atomic"
)

// Set is connections (C), by whose they are (K). Its zero value is not ready: NewSet makes one. It is not safe for
// concurrent use.
type Set[K comparable, C any] struct {
	byAge  *list.List // of *Place, the oldest first
	owners map[K]*owner[K, C]
	// most has the owner with the most connections at its top, and of several the one with the oldest.
	most owners[K, C]
}

// Place is the place of one connection, in one set at a time.
type Place[K comparable, C any] struct {
	Conn C

	arrival        uint64 // in the order in which the connections came
	set            *Set[K, C]
	owner          *owner[K, C]
	inAge, inOwner *list.Element
}

// owner is who has connections in a set.
type owner[K comparable, C any] struct {
	key    K
	places *list.List // of *Place, the oldest first
	index  int        // in most
}

// NewSet makes an empty Set.
func NewSet[K comparable, C any]() *Set[K, C] {
	return &Set[K, C]{byAge: list.New(), owners: map[K]*owner[K, C]{}}
}

// arrivals counts the connections of all sets.
var arrivals atomic.Uint64

// Add gives a new connection of key a place. It is the youngest.
func (s *Set[K, C]) Add(key K, conn C) *Place[K, C] {
	p := &Place[K, C]{Conn: conn, arrival: arrivals.Add(1)}
	p.Move(s, key)
	return p
}

// AddAs gives a connection that has a place elsewhere another one here. It is as old here as there.
func (s *Set[K, C]) AddAs(of *Place[K, C]) *Place[K, C] {
	p := &Place[K, C]{Conn: of.Conn, arrival: of.arrival}
	p.Move(s, of.Key())
	return p
}

// Move brings a connection from its set, if it has one, to a set and an owner. It is as old there as it was.
func (p *Place[K, C]) Move(to *Set[K, C], key K) {
	p.Leave()
	o := to.owners[key]
	if o == nil {
		o = &owner[K, C]{key: key, places: list.New()}
	}
	p.set, p.owner = to, o
	p.inAge, p.inOwner = p.insert(to.byAge), p.insert(o.places)
	if o.places.Len() == 1 {
		to.owners[key] = o
		heap.Push(&to.most, o)
		return
	}
	heap.Fix(&to.most, o.index)
}

// insert puts p behind those that are older.
func (p *Place[K, C]) insert(in *list.List) *list.Element {
	for e := in.Back(); e != nil; e = e.Prev() {
		if e.Value.(*Place[K, C]).arrival < p.arrival {
			return in.InsertAfter(p, e)
		}
	}
	return in.PushFront(p)
}

// Leave takes a connection out of its set. It does nothing where the connection is in none.
func (p *Place[K, C]) Leave() {
	s, o := p.set, p.owner
	if s == nil {
		return
	}
	s.byAge.Remove(p.inAge)
	o.places.Remove(p.inOwner)
	p.set, p.owner, p.inAge, p.inOwner = nil, nil, nil, nil
	if o.places.Len() > 0 {
		heap.Fix(&s.most, o.index)
		return
	}
	heap.Remove(&s.most, o.index)
	delete(s.owners, o.key)
}

// Key is whose the connection is. The connection is in a set.
func (p *Place[K, C]) Key() K { return p.owner.key }

// Len is how many connections there are.
func (s *Set[K, C]) Len() int { return s.byAge.Len() }

// CountOwners returns the number of keys that have connections.
func (s *Set[K, C]) CountOwners() int { return len(s.owners) }

// Has says whether one has connections.
func (s *Set[K, C]) Has(key K) bool { return s.owners[key] != nil }

// LenOf is how many connections one has.
func (s *Set[K, C]) LenOf(key K) int {
	if o := s.owners[key]; o != nil {
		return o.places.Len()
	}
	return 0
}

// Oldest is the oldest connection of all; nil where there is none.
func (s *Set[K, C]) Oldest() *Place[K, C] { return front[K, C](s.byAge) }

// OldestOf is the oldest connection of one; nil where it has none.
func (s *Set[K, C]) OldestOf(key K) *Place[K, C] {
	if o := s.owners[key]; o != nil {
		return front[K, C](o.places)
	}
	return nil
}

// OldestOfMost is the oldest connection of whoever has the most; nil where there is none.
func (s *Set[K, C]) OldestOfMost() *Place[K, C] {
	if len(s.most) == 0 {
		return nil
	}
	return front[K, C](s.most[0].places)
}

func front[K comparable, C any](of *list.List) *Place[K, C] {
	if e := of.Front(); e != nil {
		return e.Value.(*Place[K, C])
	}
	return nil
}

// Keys are all who have connections, in no order.
func (s *Set[K, C]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for key := range s.owners {
			if !yield(key) {
				return
			}
		}
	}
}

// All are the connections, the oldest first. The one that comes may leave meanwhile.
func (s *Set[K, C]) All() iter.Seq[C] { return each[K, C](s.byAge) }

// AllOf are the connections of one, the oldest first. The one that comes may leave meanwhile.
func (s *Set[K, C]) AllOf(key K) iter.Seq[C] {
	if o := s.owners[key]; o != nil {
		return each[K, C](o.places)
	}
	return func(func(C) bool) {}
}

func each[K comparable, C any](of *list.List) iter.Seq[C] {
	return func(yield func(C) bool) {
		for e := of.Front(); e != nil; {
			p := e.Value.(*Place[K, C])
			e = e.Next()
			if !yield(p.Conn) {
				return
			}
		}
	}
}

// owners is a heap (container/heap).
type owners[K comparable, C any] []*owner[K, C]

func (o owners[K, C]) Len() int { return len(o) }

func (o owners[K, C]) Less(i, j int) bool {
	if a, b := o[i].places.Len(), o[j].places.Len(); a != b {
		return a > b
	}
	a, b := front[K, C](o[i].places), front[K, C](o[j].places)
	return a != nil && b != nil && a.arrival < b.arrival // nil: it is just leaving
}

func (o owners[K, C]) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].index, o[j].index = i, j
}

func (o *owners[K, C]) Push(p any) {
	p.(*owner[K, C]).index = len(*o)
	*o = append(*o, p.(*owner[K, C]))
}

func (o *owners[K, C]) Pop() any {
	last := (*o)[len(*o)-1]
	*o = (*o)[:len(*o)-1]
	return last
}
