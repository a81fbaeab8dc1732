package webpage

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/door"
)

// doorway is a listener that strangers cannot fill. If there are too many connections, the address
// with the most loses its oldest. A connection whose last request had a name is a stranger's no
// more, and the names have half of the places for themselves.
type doorway struct {
	net.Listener
	most int

	lock sync.Mutex
	// all are the visitors, and streams those of them who get events.
	all, streams visitors
}

// visitors are connections, by addresses and by names.
type visitors struct{ strangers, named *door.Set[string, *visitor] }

func newVisitors() visitors {
	return visitors{door.NewSet[string, *visitor](), door.NewSet[string, *visitor]()}
}

// visitor is a connection.
type visitor struct {
	net.Conn
	door *doorway
	from string
	name string // whose the last request was; empty for a stranger
	// place is the one among all, and stream the one among the streams; nil where it gets no events. gone: it has left.
	place, stream *door.Place[string, *visitor]
	gone          bool
}

func newDoor(l net.Listener, most int) *doorway {
	return &doorway{Listener: l, most: most, all: newVisitors(), streams: newVisitors()}
}

// Accept lets everybody in, and has somebody else go.
func (d *doorway) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	v := &visitor{Conn: conn, door: d, from: network(conn.RemoteAddr())}
	d.lock.Lock()
	v.place = d.all.strangers.Add(v.from, v)
	leaves := d.all.next(d.most)
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

// next is who goes where there are more than most: a stranger, unless names have more than half of the places. nil: nobody.
func (v visitors) next(most int) *visitor {
	if v.strangers.Len()+v.named.Len() <= most {
		return nil
	}
	from := v.strangers
	if v.named.Len() > most/2 {
		from = v.named
	}
	return from.OldestOfMost().Conn
}

// note brings v to its place among strangers or names. The caller holds lock.
func (v *visitor) note() {
	if v.gone {
		return
	}
	move := func(p *door.Place[string, *visitor], among visitors) {
		if v.name == "" {
			p.Move(among.strangers, v.from)
		} else {
			p.Move(among.named, v.name)
		}
	}
	move(v.place, v.door.all)
	if v.stream != nil {
		move(v.stream, v.door.streams)
	}
}

// Close leaves the door.
func (v *visitor) Close() error {
	v.door.lock.Lock()
	v.gone = true
	v.place.Leave()
	if v.stream != nil {
		v.stream.Leave()
	}
	v.door.lock.Unlock()
	return v.Conn.Close()
}

type visitorKey struct{}

// remember is http.Server's ConnContext.
func remember(ctx context.Context, conn net.Conn) context.Context {
	if secure, found := conn.(*tls.Conn); found {
		conn = secure.NetConn()
	}
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
	v.note()
	v.door.lock.Unlock()
}

// setStreaming notes that the visitor gets events from now on, or no more. With too many of them, one
// goes, as at the door.
func (v *visitor) setStreaming(yes bool, most int) {
	if v == nil {
		return
	}
	d := v.door
	d.lock.Lock()
	switch {
	case !yes && v.stream != nil:
		v.stream.Leave()
		v.stream = nil
	case yes && v.stream == nil && !v.gone:
		v.stream = d.streams.strangers.AddAs(v.place)
		v.note()
	}
	leaves := d.streams.next(most)
	d.lock.Unlock()
	if leaves != nil {
		leaves.Close()
	}
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
