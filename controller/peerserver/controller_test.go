package peerserver

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

const limit = time.Minute

// controller is a Server that listens, with a certificate of its own CA.
type controller struct {
	*Server
	t    testing.TB
	addr string
	cert tls.Certificate
	// ca and dir are a file and a folder.
	ca, dir string
	reports chan wire.Report
	asked   atomic.Int64
	// broken: nobody can judge tokens.
	broken atomic.Bool
}

// certificate makes one for 127.0.0.1, and its CA's file.
func certificate(t testing.TB, ca string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "controller"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"controller.test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// newController serves clusters. A token is cluster/pod/role.
func newController(t testing.TB, o ServerOptions) *controller {
	c := &controller{t: t, dir: t.TempDir(), reports: make(chan wire.Report, 100)}
	c.ca = filepath.Join(c.dir, "ca.crt")
	c.cert = certificate(t, c.ca)
	o.Authenticate = func(_ context.Context, token string) (Identity, error) {
		c.asked.Add(1)
		if c.broken.Load() {
			return Identity{}, errors.New("the API server does not answer")
		}
		parts := strings.Split(token, "/")
		if len(parts) != 3 {
			return Identity{}, ErrNotAllowed
		}
		return Identity{Cluster: parts[0], Pod: parts[1], UID: parts[1], Role: role.Role(parts[2]), Gateway: strings.HasSuffix(parts[1], "-gateway")}, nil
	}
	o.Reported = func(_ Identity, r wire.Report) error { c.reports <- r; return nil }
	c.Server = NewServer(o)
	c.listen("127.0.0.1:0", c.cert)
	return c
}

func (c *controller) listen(address string, cert tls.Certificate) {
	var l net.Listener
	require.Eventually(c.t, func() bool { // an earlier controller has just left the port
		var err error
		l, err = net.Listen("tcp", address)
		return err == nil
	}, limit, 10*time.Millisecond)
	c.addr = l.Addr().String()
	ended := make(chan error, 1)
	s := c.Server
	go func() { ended <- s.Serve(l, &tls.Config{Certificates: []tls.Certificate{cert}}) }()
	c.t.Cleanup(func() {
		s.Close()
		assert.Error(c.t, <-ended)
	})
}

// restart makes a new process of the controller, which knows what c knew.
func (c *controller) restart(claims ...Claim) {
	o := c.ServerOptions
	c.Close()
	c.Server = NewServer(o)
	for _, claim := range claims {
		c.put(claim)
	}
	c.Sync()
	c.listen(c.addr, c.cert)
}

func (c *controller) put(claim Claim) {
	_, err := c.Put("one", claim)
	require.NoError(c.t, err)
}

// agent is a Client that runs, and the table as its user sees it.
type agentClient struct {
	*peers.Client
	mu    sync.Mutex
	table map[string]wire.Peer
	gone  []wire.Gone
	self  *wire.Self
}

func (c *controller) token(text string) string {
	path := filepath.Join(c.t.TempDir(), "token")
	require.NoError(c.t, os.WriteFile(path, []byte(text+"\n"), 0o400))
	return path
}

func (c *controller) client(token string, o peers.ClientOptions) *agentClient {
	a := &agentClient{table: map[string]wire.Peer{}}
	o.Address, o.CA, o.Token = cmp.Or(o.Address, c.addr), c.ca, c.token(token)
	if o.Changed == nil {
		o.Changed = a.changed
	}
	var err error
	a.Client, err = peers.NewClient(o)
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { a.Run(ctx); close(ended) }()
	c.t.Cleanup(func() { cancel(); <-ended })
	return a
}

func (a *agentClient) changed(change peers.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range change.Gone {
		delete(a.table, g.Name)
		a.gone = append(a.gone, g)
	}
	for _, p := range change.Put {
		a.table[p.Name] = p
	}
	if change.Self != nil {
		a.self = change.Self
	}
}

func (a *agentClient) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := []string{}
	for name := range a.table {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func (a *agentClient) wait(t testing.TB, names ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Equal(a.names(), names) }, limit, time.Millisecond, "%v", names)
}
