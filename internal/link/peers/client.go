// Package peers is the agent's end of the stream on which slurmlet's controller names a cluster's pods (package wire),
// and of the reports that slurmctld's agent sends back. The controller's end is controller/peerserver.
package peers

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// ClientOptions are all that sets one Client apart from another.
type ClientOptions struct {
	// Address is the controller's, host:port. Its certificate must be the host's.
	Address string
	// CA is a file with the certificates that the controller's comes from, and Token a file with the pod's
	// token. The kubelet replaces both, so they are read for each connection.
	CA, Token string
	// Alone says that no process of a user runs beside the agent: its group may read the token,
	// as the kubelet has it in a pod with an fsGroup.
	Alone bool
	// Silence is after how long without a line a stream counts as dead; 0: 60 s.
	Silence time.Duration
	// Changed takes what has changed. Away hears after each try in vain since when there is no stream, and
	// with each heartbeat since when the controller hears nothing of Kubernetes; it may be nil. Both run on
	// Run's goroutine.
	Changed func(Change)
	Away    func(since time.Time)
	// Log may be nil.
	Log func(level slog.Level, text string, attrs ...slog.Attr)
	// Dial may be nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Change is what has changed in the table since the one before. Gone comes before Put.
type Change struct {
	// Whole says that the whole table has come. Gone are then those that it lacks.
	Whole bool
	Gone  []wire.Gone
	Put   []wire.Peer
	// Self and Returning are nil where nothing is said of them.
	Self      *wire.Self
	Returning *wire.Returning
}

// HasNews says whether there is anything in it: a heartbeat leaves it empty.
func (c *Change) HasNews() bool {
	return c.Whole || len(c.Gone) > 0 || len(c.Put) > 0 || c.Self != nil || c.Returning != nil
}

// ClientStatus is what slurmlet status shows of a Client.
type ClientStatus struct {
	// Connected says whether the stream stands, and Since since when it does or does not.
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since"`
	// Updated is when the table was last known to be right: a heartbeat counts. It is zero before the first
	// table.
	Updated time.Time `json:"updated,omitzero"`
	// Stale is since when the controller hears nothing of Kubernetes; zero while it does.
	Stale    time.Time `json:"stale_since,omitzero"`
	Revision uint64    `json:"revision,omitempty"`
	Peers    int       `json:"peers"`
	// Streams counts those that stood.
	Streams int    `json:"streams"`
	Fault   string `json:"fault,omitempty"`
}

// Fresh says that the stream stands, and that its controller hears of Kubernetes.
func (s ClientStatus) Fresh() bool { return s.Connected && s.Stale.IsZero() }

// Client keeps one stream from the controller, and the last table when there is none.
type Client struct {
	ClientOptions
	host string

	mu     sync.Mutex
	status ClientStatus
	epoch  string
	// last is the address of the last controller that could be trusted.
	last  string
	table map[string]wire.Peer // by name
	// forgot says that the next whole table has more that is new.
	forgot bool
	// newEpoch gets a value when epoch has changed.
	newEpoch chan struct{}
}

const (
	usualSilence = 3 * wire.Heartbeat
	// mostLine bounds what a Client takes at once: 100,000 peers.
	mostLine = 32 << 20
	// mostPeers bounds the table.
	mostPeers = 100_000
	// perPeer times the table's size is the time over which agents come back to a controller
	// that was restarted. An agent that comes costs it 0.9 ms of processor time in a cluster of
	// 2,000, and some 1.5 ms in one of 10,000: a TLS handshake, and the compressed table.
	perPeer   = 2 * time.Millisecond
	leastWave = 200 * time.Millisecond
	// firstRetry and lastRetry bound the pauses between tries in vain.
	firstRetry = 250 * time.Millisecond
	lastRetry  = 15 * time.Second
	// firstSearch and lastSearch bound the pauses between looks for a replica that hears of Kubernetes.
	firstSearch = 10 * time.Second
	lastSearch  = 5 * time.Minute
)

// NewClient makes a Client of a controller.
func NewClient(o ClientOptions) (*Client, error) {
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, errors.New("want host:port")
	}
	if o.Silence == 0 {
		o.Silence = usualSilence
	}
	if o.Log == nil {
		o.Log = func(slog.Level, string, ...slog.Attr) {}
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	return &Client{
		ClientOptions: o, host: host, status: ClientStatus{Since: time.Now()}, table: map[string]wire.Peer{},
		newEpoch: make(chan struct{}, 1),
	}, nil
}

// Status is the present one.
func (c *Client) Status() ClientStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// Forget takes peers out of the table, so that the next whole table has them as new.
func (c *Client) Forget(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		delete(c.table, name)
		c.forgot = true
	}
	c.status.Peers = len(c.table)
}

// Run follows the controller until ctx ends.
func (c *Client) Run(ctx context.Context) {
	for tries := 0; ctx.Err() == nil; {
		began := time.Now()
		stood, err := c.follow(ctx, tries)
		if ctx.Err() != nil {
			return
		}
		stood = stood && time.Since(began) > lastRetry // a controller that dies as all come back is left in peace
		if stood {
			tries = 0
		}
		c.failed(err, tries)
		if c.Away != nil {
			c.Away(c.Status().Since)
		}
		pause := c.pause(err, stood, tries)
		tries++
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// pause spreads the agents: those that have lost the same controller come back one after the other.
func (c *Client) pause(err error, stood bool, tries int) time.Duration {
	c.mu.Lock()
	wave := max(leastWave, time.Duration(len(c.table))*perPeer)
	c.mu.Unlock()
	if stood {
		return rand.N(wave)
	}
	pause := max(wave/2, backoff.Grow(firstRetry, tries, lastRetry))
	if r, is := errors.AsType[*refusal](err); is {
		pause = max(pause, r.wait)
	}
	return pause/2 + rand.N(pause)
}

// patience is how many tries in vain are nothing to worry about.
const patience = 3

func (c *Client) failed(err error, tries int) {
	c.mu.Lock()
	now := time.Now()
	if c.status.Connected {
		c.status.Connected, c.status.Since = false, now
	}
	c.status.Fault = err.Error()
	peers := c.status.Peers
	c.mu.Unlock()
	if tries == patience {
		c.Log(slog.LevelWarn, "no table of the peers comes from the controller; the last one stays",
			slog.Int("peers", peers), slog.String("error", err.Error()))
	}
}

// take brings the table up to date, and says what has changed in it. Peers that could not be in a hosts
// file are left out.
func (c *Client) take(u wire.Update) Change {
	c.mu.Lock()
	change := Change{Whole: u.Snapshot, Self: u.Self, Returning: u.Returning}
	badSets := u.Returning.Check()
	if badSets != nil {
		change.Returning = nil
	}
	left := c.update(u, &change)
	back := c.taken(u)
	c.mu.Unlock()
	if left > 0 {
		c.Log(slog.LevelWarn, "the controller names peers that cannot be used; they are left out", slog.Int("peers", left))
	}
	if badSets != nil {
		c.Log(slog.LevelWarn, "cannot use what the controller sends of workloads", slog.Any("error", badSets))
	}
	if back {
		c.Log(slog.LevelInfo, "the table of the peers comes from the controller", slog.Int("peers", c.Status().Peers))
	}
	return change
}

// update brings the table up to date, and adds to the change what is new. left is how many peers cannot be used. The caller
// holds mu.
func (c *Client) update(u wire.Update, change *Change) (left int) {
	for _, gone := range u.Gone {
		if old, known := c.table[gone.Name]; known && old.UID == gone.UID {
			delete(c.table, gone.Name)
			change.Gone = append(change.Gone, gone)
		}
	}
	kept := map[string]bool{}
	for _, p := range u.Peers {
		if p.Check() != nil || len(c.table) >= mostPeers && c.table[p.Name].Name == "" {
			left++
			continue
		}
		if u.Snapshot {
			kept[p.Name] = true
		}
		if old, known := c.table[p.Name]; !known || !same(old, p) {
			c.table[p.Name] = p
			change.Put = append(change.Put, p)
		}
	}
	if u.Snapshot {
		for name, p := range c.table {
			if !kept[name] {
				delete(c.table, name)
				change.Gone = append(change.Gone, wire.Gone{Name: name, UID: p.UID})
			}
		}
		slices.SortFunc(change.Gone, func(a, b wire.Gone) int { return strings.Compare(a.Name, b.Name) })
	}
	return left
}

// taken notes what the status shows, and says whether the stream has just begun. The caller holds mu.
func (c *Client) taken(u wire.Update) (began bool) {
	now := time.Now()
	began = !c.status.Connected
	if began {
		c.status.Since = now
		c.status.Streams++
	}
	c.status.Connected, c.status.Peers, c.status.Fault = true, len(c.table), ""
	switch {
	case u.Stale && c.status.Stale.IsZero():
		c.status.Stale = now
	case u.IsHeartbeat() && !u.Stale, u.Snapshot:
		c.status.Stale = time.Time{}
	}
	if c.status.Stale.IsZero() {
		c.status.Updated = now
	}
	c.forgot = c.forgot && !u.Snapshot
	if u.Revision > 0 {
		c.status.Revision = u.Revision
	}
	if u.Epoch != "" && u.Epoch != c.epoch {
		c.epoch = u.Epoch
		select {
		case c.newEpoch <- struct{}{}:
		default:
		}
	}
	return began
}

func same(a, b wire.Peer) bool {
	return a.UID == b.UID && a.Role == b.Role && a.NodeSet == b.NodeSet && a.Machine == b.Machine && a.Ending == b.Ending &&
		slices.Equal(a.Addresses, b.Addresses)
}
