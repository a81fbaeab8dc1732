//go:build e2e

package gone

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/e2e/native"
	"github.com/slurmlet/slurmlet/internal/peers"
)

// controller is what slurmctld's agent follows, and what it has told of the nodes.
type controller struct {
	*peers.Server
	address string

	lock  sync.Mutex
	nodes map[string]peers.NodeReport
}

// The cluster's name, the token of slurmctld's pod, and where its agent looks for it.
const (
	clusterName = "native"
	token       = "a.pods.token"
	tokenDir    = "etc/slurmlet/peers"
)

// newController serves the peers, and puts its CA and a token into a root file system.
func newController(root string) (*controller, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.ParseIP(native.Address)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, tokenDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for name, text := range map[string][]byte{"token": []byte(token), "ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o400); err != nil {
			return nil, err
		}
	}
	c := &controller{nodes: map[string]peers.NodeReport{}}
	c.Server = peers.NewServer(peers.ServerOptions{Authenticate: authenticate, Reported: c.reported})
	c.Sync()
	l, err := net.Listen("tcp", net.JoinHostPort(native.Address, "0"))
	if err != nil {
		return nil, err
	}
	c.address = l.Addr().String()
	go func() {
		_ = c.Serve(l, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13})
	}()
	return c, nil
}

func authenticate(_ context.Context, shown string) (peers.Identity, error) {
	if shown != token {
		return peers.Identity{}, peers.ErrNotAllowed
	}
	return peers.Identity{Cluster: clusterName, Pod: "slurm/slurmctld-0", UID: "slurmctld", Role: "slurmctld"}, nil
}

func (c *controller) reported(_ peers.Identity, r peers.Report) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if r.Whole {
		clear(c.nodes)
	}
	for _, n := range r.Nodes {
		c.nodes[n.Name] = n
	}
}

// state is what slurmctld's agent has told last.
func (c *controller) state(node string) peers.State {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.nodes[node].State
}

// live is a pod of slurmd's, without an address as long as it waits for a machine.
func (c *controller) live(n *native.Node, uid string, addressed bool) error {
	p := peers.Peer{Name: n.Name, UID: uid, Role: "slurmd"}
	if a, ok := netip.AddrFromSlice(n.IP); ok && addressed {
		p.Addresses = []netip.Addr{a.Unmap()}
	}
	if _, err := c.Put(clusterName, peers.Claim{Peer: p, Created: time.Now()}); err != nil {
		return fmt.Errorf("cannot tell of %s: %w", n.Name, err)
	}
	return nil
}

// uidOf is the first pod's of a name.
func uidOf(n *native.Node) string { return "uid-" + n.Name }

func (c *controller) gone(n *native.Node, lost bool) { c.Delete(clusterName, uidOf(n), lost) }
