// Package fakecontroller plays the controller for the agents of a cluster on e2e/native: the controller's own server of the peers,
// to which a test tells what Kubernetes would tell.
package fakecontroller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/pki"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Cluster is the cluster's name.
const Cluster = "native"

// Slurmctld is the UID of slurmctld's pod.
const Slurmctld = "slurmctld"

// Login is the UID of a login pod.
const Login = "login"

// address is on slurmctld's machine, and behind that of the peers' server where a Queue is before it.
const (
	address = native.Address + ":8443"
	behind  = native.Address + ":8444"
)

// Server is the peers' server that the agents follow. It keeps what slurmctld's agent has told last of the nodes.
type Server struct {
	*peerserver.Server
	ca   []byte
	pair tls.Certificate

	lock      sync.Mutex
	returning *wire.Returning
	heard     bool
	conf      string
	nodes     map[string]wire.NodeReport
}

// Start serves the peers until the process ends. answer is what slurmctld's agent gets for a report, and may be nil.
func Start(answer func(peerserver.Identity) (*wire.Answer, bool)) (*Server, error) {
	return start(answer, address)
}

func start(answer func(peerserver.Identity) (*wire.Answer, bool), at string) (*Server, error) {
	authority, err := pki.New("peers")
	if err != nil {
		return nil, err
	}
	own, err := authority.Server(native.Address)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(own.Certificate, own.Key)
	if err != nil {
		return nil, fmt.Errorf("cannot use a certificate: %w", err)
	}
	s := &Server{ca: authority.Certificate, pair: pair, nodes: map[string]wire.NodeReport{}}
	s.Server = peerserver.NewServer(peerserver.ServerOptions{Authenticate: authenticate, Reported: s.reported, Answer: answer, Returning: s.workloads})
	s.Sync()
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("cannot serve the peers: %w", err)
	}
	go func() {
		_ = s.Serve(l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})
	}()
	return s, nil
}

// authenticate: a pod's token is its UID.
func authenticate(_ context.Context, uid string) (peerserver.Identity, error) {
	is := role.Slurmd
	switch uid {
	case Slurmctld:
		is = role.Slurmctld
	case Login:
		is = role.Login
	}
	return peerserver.Identity{Cluster: Cluster, Pod: "slurm/" + uid, UID: uid, Role: is}, nil
}

// Admit puts a pod's token into a root file system, and returns the settings of the pod's agent.
func (s *Server) Admit(root, uid string) (environ []string, err error) {
	dir := "/etc/slurmlet/peers-" + uid
	at := filepath.Join(root, dir)
	err = errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, "ca.crt"), s.ca, 0o644), os.WriteFile(filepath.Join(at, "token"), []byte(uid), 0o400))
	return []string{"SLURMLET_PEERS=" + address, "SLURMLET_PEERS_DIR=" + dir}, err
}

// Tell has the agents know of a pod, without an address as long as it does not run.
func (s *Server) Tell(p wire.Peer, ip net.IP) error {
	if a, ok := netip.AddrFromSlice(ip); ok {
		p.Addresses = []netip.Addr{a.Unmap()}
	}
	if _, err := s.Put(Cluster, peerserver.Claim{Peer: p, Created: time.Now()}); err != nil {
		return fmt.Errorf("cannot tell of %s: %w", p.Name, err)
	}
	return nil
}

// Gone has the agents know that nothing is left of a pod. A lost one has gone with its machine.
func (s *Server) Gone(uid string, lost bool) { s.Delete(Cluster, uid, lost) }

// StatefulSets has slurmctld's agent know which ones there are. Nobody knows before.
func (s *Server) StatefulSets(all ...wire.StatefulSet) {
	s.lock.Lock()
	s.returning = &wire.Returning{StatefulSets: all}
	s.lock.Unlock()
	s.SetsChanged()
}

func (s *Server) workloads(string) *wire.Returning {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.returning
}

func (s *Server) reported(_ peerserver.Identity, r wire.Report) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if r.Whole {
		clear(s.nodes)
	}
	s.heard, s.conf = s.heard || r.Whole, r.Conf
	for _, n := range r.Nodes {
		s.nodes[n.Name] = n
	}
	return nil
}

// Reports are what slurmctld's agent has told last, by node. heard says whether it has told of all nodes.
func (s *Server) Reports() (nodes map[string]wire.NodeReport, heard bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return maps.Clone(s.nodes), s.heard
}

// Conf is the digest of slurm.conf's directory that slurmctld's agent has told last.
func (s *Server) Conf() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.conf
}

// State is what slurmctld's agent has told last of a node.
func (s *Server) State(node string) wire.State {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.nodes[node].State
}
