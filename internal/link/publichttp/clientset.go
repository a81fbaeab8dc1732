package publichttp

import (
	"maps"
	"net/netip"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/door"
)

// clientSet bounds how many connections there are, and for how long.
type clientSet struct {
	*door.Set[peerKey, *client]
	limit   int
	timeout time.Duration
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

func newClientSet(limit int, timeout time.Duration) clientSet {
	return clientSet{Set: door.NewSet[peerKey, *client](), limit: limit, timeout: timeout}
}

func (s *clientSet) full() bool { return s.Len() >= s.limit }

// deadline is when the oldest has had its time; zero for never.
func (s *clientSet) deadline() time.Time {
	if oldest := s.Oldest(); oldest != nil {
		return oldest.Conn.since.Add(s.timeout)
	}
	return time.Time{}
}

// add puts c into the set, as its youngest.
func (s *clientSet) add(c *client, now time.Time) {
	c.inSet, c.since = s, now
	c.place = s.Add(keyOf(c), c)
}

func (s *clientSet) remove(c *client) {
	key := c.place.Key()
	c.place.Leave()
	if s.Has(key) || s.left == nil || key.name == "" {
		return
	}
	s.left[key.name] = time.Now()
	if len(s.left) > mostLeft*max(s.limit, 1) {
		maps.DeleteFunc(s.left, func(_ string, at time.Time) bool { return time.Since(at) > longestAway })
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
	for key := range s.Keys() {
		all = append(all, key.name)
	}
	for name, at := range s.left {
		switch {
		case s.Has(peerKey{name: name}) || time.Since(at) >= within:
			delete(s.left, name)
		default:
			all = append(all, name)
		}
	}
	return all
}
