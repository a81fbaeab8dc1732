package publichttp

import (
	"container/heap"
	"container/list"
	"maps"
	"net/netip"
	"time"
)

// clientSet bounds how many connections there are. When there are too many, the peer with the
// most connections loses its oldest. A stranger with thousands of them keeps nobody else out,
// and nodes behind one address (NAT) may use all the room that is left.
type clientSet struct {
	limit   int
	timeout time.Duration
	byAge   *list.List // of *client, the oldest first
	peers   map[peerKey]*peer
	busiest busiest
	// left is when the last client of a name went that has none now. It is nil where nobody asks.
	left map[string]time.Time
}

// peerKey is a stranger's address, or the name that a client has proved.
type peerKey struct {
	addr netip.Addr
	name string
}

// keyOf is whose client c is.
func keyOf(c *client) peerKey {
	if c.waiter != nil && c.waiter.name != "" {
		return peerKey{name: c.waiter.name}
	}
	return peerKey{addr: c.from.Addr()}
}

// peer is what there is of one key.
type peer struct {
	key     peerKey
	clients *list.List // the oldest first
	index   int        // in busiest
}

func newClientSet(limit int, timeout time.Duration) clientSet {
	return clientSet{limit: limit, timeout: timeout, byAge: list.New(), peers: map[peerKey]*peer{}}
}

func (s *clientSet) full() bool { return s.byAge.Len() >= s.limit }

func (s *clientSet) oldest() *client {
	if first := s.byAge.Front(); first != nil {
		return first.Value.(*client)
	}
	return nil
}

// deadline is when the oldest has had its time; zero for never.
func (s *clientSet) deadline() time.Time {
	if c := s.oldest(); c != nil {
		return c.since.Add(s.timeout)
	}
	return time.Time{}
}

// victim is who has to go for another one.
func (s *clientSet) victim() *client {
	if len(s.busiest) == 0 {
		return nil
	}
	return s.busiest[0].clients.Front().Value.(*client)
}

func (s *clientSet) add(c *client, now time.Time) {
	key := keyOf(c)
	p := s.peers[key]
	if p == nil {
		p = &peer{key: key, clients: list.New()}
		s.peers[key] = p
		heap.Push(&s.busiest, p)
	}
	c.set, c.peer, c.since = s, p, now
	c.inAge, c.inPeer = s.byAge.PushBack(c), p.clients.PushBack(c)
	heap.Fix(&s.busiest, p.index)
}

func (s *clientSet) remove(c *client) {
	s.byAge.Remove(c.inAge)
	c.peer.clients.Remove(c.inPeer)
	if c.peer.clients.Len() > 0 {
		heap.Fix(&s.busiest, c.peer.index)
		return
	}
	heap.Remove(&s.busiest, c.peer.index)
	delete(s.peers, c.peer.key)
	if s.left != nil && c.peer.key.name != "" {
		s.left[c.peer.key.name] = time.Now()
		if len(s.left) > mostLeft*max(s.limit, 1) {
			maps.DeleteFunc(s.left, func(_ string, at time.Time) bool { return time.Since(at) > longestAway })
		}
	}
}

const (
	// mostLeft bounds the names that have gone, as a multiple of those that may be here.
	mostLeft = 4
	// longestAway is how long ago somebody asks about.
	longestAway = 5 * time.Minute
)

// names are those that have a client, or had one less than within ago. The set forgets the others.
func (s *clientSet) names(within time.Duration) (all []string) {
	for key := range s.peers {
		all = append(all, key.name)
	}
	for name, at := range s.left {
		switch _, here := s.peers[peerKey{name: name}]; {
		case here || time.Since(at) >= within:
			delete(s.left, name)
		default:
			all = append(all, name)
		}
	}
	return all
}

// busiest has the peer with the most clients at its top (container/heap).
type busiest []*peer

func (b busiest) Len() int           { return len(b) }
func (b busiest) Less(i, j int) bool { return b[i].clients.Len() > b[j].clients.Len() }
func (b busiest) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].index, b[j].index = i, j
}

func (b *busiest) Push(p any) {
	p.(*peer).index = len(*b)
	*b = append(*b, p.(*peer))
}

func (b *busiest) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}
