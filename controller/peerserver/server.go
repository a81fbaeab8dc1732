// Package peerserver is the controller's end of the stream on which each agent follows its cluster's pods (package wire),
// and takes the reports of slurmctld's agents. The agents' end is internal/link/peers.
package peerserver

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Identity is the pod whose token a client has shown.
type Identity struct {
	Cluster string
	// Pod is namespace/name, UID the pod's.
	Pod, UID string
	Role     role.Role
	// Gateway says that the pod may submit jobs of Kubernetes' pods.
	Gateway bool
}

// ServerOptions are all that sets one Server apart from another.
type ServerOptions struct {
	// Authenticate finds the pod that a token belongs to. An error is ErrNotAllowed if the token gives no
	// right; any other says that nobody could tell.
	Authenticate func(ctx context.Context, token string) (Identity, error)
	// Reported takes what slurmctld's agent tells of the nodes, one report at a time. An error is NotTaken. nil: the
	// server refuses reports.
	Reported func(Identity, wire.Report) error
	// NotTaken hears of each report that has a fault, or is too much. It may be nil.
	NotTaken func(Identity, *NotTaken)
	// Answer is asked after Reported. known is false if the report changes what nobody knows: the agent then
	// sends all. A nil answer says nothing. nil: nobody has anything to say.
	Answer func(Identity) (answer *wire.Answer, known bool)
	// Leads says whether this replica is the one that writes: others refuse reports with 421, and the agent
	// asks again. nil: it is.
	Leads func() bool
	// Stale says that this replica hears nothing of Kubernetes: it tells its agents so, and refuses new
	// streams. nil: it hears.
	Stale func() bool
	// Returning is what slurmctld's agents of a cluster are told of its workloads; nil while that is not known.
	// Whoever answers calls SetsChanged. nil: nobody knows.
	Returning func(cluster string) *wire.Returning
	// Queue is nil where no pods wait in Slurm's queue.
	Queue Queue
	// Log may be nil. Strangers cause no line of it.
	Log *slog.Logger
	// Heartbeat is how long a stream is silent at most; 0: wire.Heartbeat.
	Heartbeat time.Duration
	// Strangers is how many connections there may be that have shown no token yet; 0: 512.
	Strangers int
}

// ErrNotAllowed is what Authenticate returns for a token that gives no right, and ErrBusy for one that
// must wait because strangers may have caused that: it makes no line in the log.
var (
	ErrNotAllowed = errors.New("the token gives no right to read the peers")
	ErrBusy       = errors.New("too many tokens wait to be judged")
)

const (
	usualStrangers = 512
	// mostHeader bounds a request's header. A token has 1 to 2 kB.
	mostHeader = 12 << 10
	// timeToAsk bounds the TLS handshake and the request's header, timeToReport the body also.
	timeToAsk    = 5 * time.Second
	timeToReport = 20 * time.Second
	timeToJudge  = 10 * time.Second
)

// Server tells each agent of its cluster, and takes the reports of slurmctld's agents.
type Server struct {
	ServerOptions
	epoch string
	// synced: the tables are as whole as Kubernetes tells them.
	synced atomic.Bool
	count  counters
	intake *intake
	// waiting are requests of Queue.
	waiting waiting
	// places are those of readers that get a whole table, each for timeOfPlace.
	places      chan struct{}
	timeOfPlace time.Duration

	mu       sync.Mutex
	clusters map[string]*cluster
	guards   map[*guard]bool
	closed   bool
}

// NewServer makes a Server that refuses streams until Sync.
func NewServer(o ServerOptions) *Server {
	if o.Heartbeat == 0 {
		o.Heartbeat = wire.Heartbeat
	}
	if o.Strangers == 0 {
		o.Strangers = usualStrangers
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Stale == nil {
		o.Stale = func() bool { return false }
	}
	return &Server{
		ServerOptions: o, epoch: rand.Text(), places: make(chan struct{}, mostPlaces), timeOfPlace: timeOfPlace,
		clusters: map[string]*cluster{}, guards: map[*guard]bool{}, intake: newIntake(),
	}
}

// Sync says that the tables have all pods now. A stream that began before would tell an agent to forget
// peers that live.
func (s *Server) Sync() { s.synced.Store(true) }

// Put adds a pod to its cluster, or changes it. It tells whether another pod has the name.
func (s *Server) Put(name string, claim Claim) (*Conflict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cluster(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	conflict, err := c.table.Put(claim)
	if err != nil && c.empty() {
		delete(s.clusters, name)
	}
	c.changed()
	return conflict, err
}

// Delete takes a pod out of its cluster, with what Kubernetes knew of it, and ends its stream. lost says that
// its machine is gone. successor is the UID of the pod that has the name now, and did not have it before.
func (s *Server) Delete(name, uid string, lost bool) (successor string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clusters[name]
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	successor = c.table.Delete(uid, lost)
	delete(c.selves, uid)
	if r := c.readers[uid]; r != nil {
		r.end() // its token is no longer good
	}
	if c.empty() {
		delete(s.clusters, name)
		return successor
	}
	c.changed()
	return successor
}

// SetSelf tells a pod what Kubernetes knows of it, when that changes.
func (s *Server) SetSelf(name, uid string, self wire.Self) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cluster(name).setSelf(uid, self)
}

// cluster finds or makes one. The caller holds mu.
func (s *Server) cluster(name string) *cluster {
	c := s.clusters[name]
	if c == nil {
		c = newCluster(s.epoch)
		s.clusters[name] = c
	}
	return c
}

// Conflicts are the pods of a cluster that do not have the names that they claim.
func (s *Server) Conflicts(name string) []Conflict {
	s.mu.Lock()
	c := s.clusters[name]
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.Conflicts()
}

// Serve answers those who come to l, until Close. It bounds what strangers can have: their number, their
// time and their bytes. config has the server's certificate.
func (s *Server) Serve(l net.Listener, config *tls.Config) error {
	g := newGuard(l, s.Strangers, &s.count.evicted)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errors.Join(http.ErrServerClosed, l.Close())
	}
	s.guards[g] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.guards, g)
		s.mu.Unlock()
		g.closeStrangers()
	}()
	config = config.Clone()
	config.MinVersion = tls.VersionTLS13
	config.NextProtos = []string{"http/1.1"}
	server := http.Server{
		Handler: s, MaxHeaderBytes: mostHeader, ReadHeaderTimeout: timeToAsk, ReadTimeout: timeToReport, WriteTimeout: timeToReport, IdleTimeout: timeToReport,
		ConnContext: withConnection, ErrorLog: slog.NewLogLogger(faults{s.Log.Handler()}, slog.LevelError),
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // no HTTP/2
	}
	return server.Serve(tls.NewListener(g, config))
}

// Close ends all streams, and Serve.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for g := range s.guards {
		_ = g.Close()
	}
	for _, c := range s.clusters {
		c.mu.Lock()
		for _, r := range c.readers {
			r.end()
		}
		c.mu.Unlock()
	}
}

// ServeHTTP is for Serve's clients, or for those of another server with HTTP/1.1. A connection serves one request:
// nobody bounds the idle ones of those who have a token.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	var serve func(http.ResponseWriter, *http.Request, Identity)
	queued := s.ofQueue(r)
	switch {
	case queued != nil:
		serve = queued
	case r.URL.Path == "/v1/stream" && r.Method == http.MethodGet && s.Stale() && r.URL.Query().Get("stale") != "yes":
		s.refuse(w, http.StatusServiceUnavailable) // another replica may hear more; nobody is asked about the token
		return
	case r.URL.Path == "/v1/stream" && r.Method == http.MethodGet:
		serve = s.stream
	case r.URL.Path == "/v1/nodes" && r.Method == http.MethodPost:
		serve = s.report
	case r.URL.Path == "/v1/stream" || r.URL.Path == "/v1/nodes":
		s.refuse(w, http.StatusMethodNotAllowed)
		return
	default:
		s.refuse(w, http.StatusNotFound)
		return
	}
	id, code := s.authenticate(r)
	if code != http.StatusOK {
		s.refuse(w, code)
		return
	}
	serve(w, r, id)
}

func (s *Server) refuse(w http.ResponseWriter, code int) {
	if code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "2")
	}
	http.Error(w, http.StatusText(code), code)
}

// authenticate asks whose token it is. An address with many wrong tokens is not asked about any more
// for a while, except for tokens that were good before.
func (s *Server) authenticate(r *http.Request) (Identity, int) {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer || token == "" {
		s.count.denied.Add(1)
		return Identity{}, http.StatusUnauthorized
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeToJudge)
	defer cancel()
	id, err := s.Authenticate(ctx, token)
	switch {
	case errors.Is(err, ErrNotAllowed):
		s.count.denied.Add(1)
		return Identity{}, http.StatusUnauthorized
	case errors.Is(err, ErrBusy):
		s.count.unknown.Add(1)
		return Identity{}, http.StatusServiceUnavailable
	case err != nil:
		s.count.unknown.Add(1)
		s.Log.Warn("cannot judge an agent's token", slog.Any("error", err))
		return Identity{}, http.StatusServiceUnavailable
	}
	keepsPlace(r.Context())
	return id, http.StatusOK
}

func address(remote string) netip.Addr {
	from, _ := netip.ParseAddrPort(remote) // net/http's own
	return from.Addr().Unmap()
}

// stream gives the connection to a reader, which needs neither net/http's buffers nor its goroutines.
func (s *Server) stream(w http.ResponseWriter, q *http.Request, id Identity) {
	if !s.synced.Load() {
		s.refuse(w, http.StatusServiceUnavailable)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.refuse(w, http.StatusHTTPVersionNotSupported)
		return
	}
	r := newReader(id, conn)
	r.compressed = accepts(q.Header.Get("Accept"))
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_ = conn.Close()
		return
	}
	c := s.cluster(id.Cluster)
	former := c.join(r)
	s.mu.Unlock()
	if former != nil {
		former.end()
	}
	s.count.streams.Add(1)
	go s.tell(c, r)
}

// faults takes what net/http logs. Strangers cause most of that; a fault of the server's own is kept.
type faults struct{ slog.Handler }

func (f faults) Handle(ctx context.Context, r slog.Record) error {
	if !strings.HasPrefix(r.Message, "http: panic") {
		return nil
	}
	return f.Handler.Handle(ctx, r)
}

// streamHead begins a stream, which ends with its connection.
var streamHead = []byte("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n")

// forget removes a cluster that nobody is in.
func (s *Server) forget(name string, c *cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.empty() && s.clusters[name] == c {
		delete(s.clusters, name)
	}
}

func (i Identity) String() string { return i.Pod + " of the cluster " + strconv.Quote(i.Cluster) }
