//go:build e2e

package elastic

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/e2e/native"
	"github.com/slurmlet/slurmlet/e2e/podmaker"
	"github.com/slurmlet/slurmlet/internal/peers"
)

// controller is the peers' server that all agents follow, and what slurmctld's agent has told it of the nodes.
type controller struct {
	*peers.Server
	root string // slurmctld's
	ca   []byte

	lock    sync.Mutex
	heard   bool
	nodes   map[string]peers.NodeReport
	failing map[string]peers.Failure // by node
}

const (
	clusterName = "native"
	// controllerUID is the UID of slurmctld's pod.
	controllerUID = "slurmctld"
	// peersAddress is where the controller listens.
	peersAddress = native.Address + ":8443"
)

// newController serves the peers. A pod's token is its UID.
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
	c := &controller{root: root, ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nodes: map[string]peers.NodeReport{}, failing: map[string]peers.Failure{}}
	c.Server = peers.NewServer(peers.ServerOptions{Authenticate: authenticate, Reported: c.reported, Answer: c.answer})
	c.Sync()
	l, err := net.Listen("tcp", peersAddress)
	if err != nil {
		return nil, err
	}
	go func() {
		_ = c.Serve(l, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13})
	}()
	return c, nil
}

func authenticate(_ context.Context, uid string) (peers.Identity, error) {
	role := "slurmd"
	if uid == controllerUID {
		role = "slurmctld"
	}
	return peers.Identity{Cluster: clusterName, Pod: "slurm/" + uid, UID: uid, Role: role}, nil
}

// admit gives a pod its token, and returns the settings of its agent.
func (c *controller) admit(uid string) ([]string, error) {
	dir := "/etc/slurmlet/peers-" + uid
	at := filepath.Join(c.root, dir)
	err := errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, "ca.crt"), c.ca, 0o644), os.WriteFile(filepath.Join(at, "token"), []byte(uid), 0o400))
	return []string{"SLURMLET_PEERS=" + peersAddress, "SLURMLET_PEERS_DIR=" + dir}, err
}

func (c *controller) reported(_ peers.Identity, r peers.Report) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if r.Whole {
		clear(c.nodes)
	}
	c.heard = c.heard || r.Whole
	for _, n := range r.Nodes {
		c.nodes[n.Name] = n
	}
}

// answer tells what keeps pods from starting.
func (c *controller) answer(peers.Identity) (*peers.Answer, bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	a := &peers.Answer{Soon: len(c.failing) > 0}
	for _, name := range slices.Sorted(maps.Keys(c.failing)) {
		a.Failing.Pods = append(a.Failing.Pods, c.failing[name])
	}
	return a, c.heard
}

// fails has a pod not start for a reason, from now on; an empty one ends that.
func (c *controller) fails(name, reason, note string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.failing, name)
	if reason != "" {
		c.failing[name] = peers.Failure{Nodes: name, Reason: reason, Note: note, Since: time.Now()}
	}
}

// wanted is what slurmctld's agent has told last.
func (c *controller) wanted(context.Context) (podmaker.Wanted, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if !c.heard {
		return nil, errors.New("slurmctld's agent has not told of its nodes")
	}
	wanted := podmaker.Wanted{}
	for name, n := range c.nodes {
		if n.Elastic != "" {
			wanted[name] = n.Wanted
		}
	}
	return wanted, nil
}

// busy: slurmctld's agent has told that a job has the node.
func (c *controller) busy(node string) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.nodes[node].State == peers.Busy
}

// tell has the agents know of a pod, without an address as long as it does not run.
func (c *controller) tell(name, uid, role string, ip net.IP, ending bool) error {
	p := peers.Peer{Name: name, UID: uid, Role: role, Ending: ending}
	if a, ok := netip.AddrFromSlice(ip); ok {
		p.Addresses = []netip.Addr{a.Unmap()}
	}
	if _, err := c.Put(clusterName, peers.Claim{Peer: p, Created: time.Now()}); err != nil {
		return fmt.Errorf("cannot tell of %s: %w", name, err)
	}
	return nil
}

func (c *controller) gone(uid string, lost bool) { c.Delete(clusterName, uid, lost) }
