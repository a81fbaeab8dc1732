package webpage

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

// door is a listener that strangers cannot fill. If there are too many connections, the address
// with the most loses its oldest. A connection whose last request had a name is a stranger's no
// more, and the names have half of the places for themselves.
type door struct {
	net.Listener
	most int

	lock     sync.Mutex
	visitors map[*visitor]struct{}
	came     uint64
}

// visitor is a connection.
type visitor struct {
	net.Conn
	door   *door
	from   string
	number uint64 // in the order in which they came
	name   string // whose the last request was; empty for a stranger
	stream bool   // it gets events
	gone   sync.Once
}

func newDoor(l net.Listener, most int) *door {
	return &door{Listener: l, most: most, visitors: map[*visitor]struct{}{}}
}

// Accept lets everybody in, and has somebody else go.
func (d *door) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	v := &visitor{Conn: conn, door: d, from: network(conn.RemoteAddr())}
	d.lock.Lock()
	d.came++
	v.number = d.came
	d.visitors[v] = struct{}{}
	var leaves *visitor
	if len(d.visitors) > d.most {
		leaves = d.next(func(*visitor) bool { return true }, d.most)
	}
	d.lock.Unlock()
	if leaves != nil {
		leaves.Close()
	}
	return v, nil
}

// network is one machine's, or one customer's: an IPv4 address, or an IPv6 network of 64 bits.
func network(a net.Addr) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.String()
	}
	address := at.Addr().Unmap()
	if address.Is4() {
		return address.String()
	}
	prefix, err := address.WithZone("").Prefix(64)
	if err != nil {
		return address.String()
	}
	return prefix.String()
}

// next is who goes, among those that are chosen: a stranger, unless names have more than half of
// the places.
func (d *door) next(chosen func(*visitor) bool, most int) *visitor {
	counts, named := map[string]int{}, 0
	for v := range d.visitors {
		if chosen(v) {
			counts[v.key()]++
			if v.name != "" {
				named++
			}
		}
	}
	var leaves *visitor
	for v := range d.visitors {
		if !chosen(v) || (v.name != "") != (named > most/2) {
			continue
		}
		switch {
		case leaves == nil, counts[v.key()] > counts[leaves.key()]:
			leaves = v
		case counts[v.key()] == counts[leaves.key()] && v.number < leaves.number:
			leaves = v
		}
	}
	return leaves
}

// key is by what connections are counted.
func (v *visitor) key() string {
	if v.name != "" {
		return "name " + v.name
	}
	return v.from
}

// Close leaves the door.
func (v *visitor) Close() error {
	v.gone.Do(func() {
		v.door.lock.Lock()
		delete(v.door.visitors, v)
		v.door.lock.Unlock()
	})
	return v.Conn.Close()
}

type visitorKey struct{}

// remember is http.Server's ConnContext.
func remember(ctx context.Context, conn net.Conn) context.Context {
	if v, ours := conn.(*visitor); ours {
		return context.WithValue(ctx, visitorKey{}, v)
	}
	return ctx
}

func visitorOf(ctx context.Context) *visitor {
	v, _ := ctx.Value(visitorKey{}).(*visitor)
	return v
}

// is notes whose the present request is.
func (v *visitor) is(name string) {
	if v == nil {
		return
	}
	v.door.lock.Lock()
	v.name = name
	v.door.lock.Unlock()
}

// streams notes that the visitor gets events from now on, or no more. With too many of them, one
// goes, as at the door.
func (v *visitor) streams(yes bool, most int) {
	if v == nil {
		return
	}
	d := v.door
	d.lock.Lock()
	v.stream = yes
	n := 0
	for one := range d.visitors {
		if one.stream {
			n++
		}
	}
	var leaves *visitor
	if n > most {
		leaves = d.next(func(one *visitor) bool { return one.stream }, most)
	}
	d.lock.Unlock()
	if leaves != nil {
		leaves.Close()
	}
}

// address is for limits of what one address may have done at once.
func (v *visitor) address() string {
	if v == nil {
		return ""
	}
	return v.from
}

// patience is how long a visitor may take to ask, to read an answer, and to ask again.
const (
	askPatience  = 10 * time.Second
	readPatience = 30 * time.Second
	idlePatience = 30 * time.Second
	// streamTime is after how long a stream ends; the browser comes again.
	streamTime = 15 * time.Minute
	// beat is how often a stream without news shows that it is there.
	beat = 15 * time.Second
)
