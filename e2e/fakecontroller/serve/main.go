// Command serve is the controller's server of the peers for tests of the agent's own module, which cannot import it. It takes
// orders from its standard input and tells reports on its standard output, both in lines of JSON, and ends with its input.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// order is what Kubernetes would tell of one pod. One of its fields is set, and Lost belongs to Delete.
type order struct {
	// Put and Self are about a pod of the cluster, and Delete is the UID of one.
	Put    *wire.Peer
	Delete string
	Lost   bool
	// UID is the pod that Self is about.
	UID  string
	Self *wire.Self
}

// line is what serve tells: that it listens, what became of an order, or a report.
type line struct {
	Address string       `json:",omitempty"`
	Done    bool         `json:",omitempty"`
	Fault   string       `json:",omitempty"`
	Report  *wire.Report `json:",omitempty"`
}

const cluster = "c"

func main() {
	address := flag.String("listen", "127.0.0.1:0", "where it listens")
	pair := flag.String("pair", "", "a file with the certificate and its key")
	token := flag.String("token", "", "the token of the pod that asks")
	pod := flag.String("pod", "", "the pod's name")
	as := flag.String("role", "", "the pod's role")
	flag.Parse()
	id := peerserver.Identity{Cluster: cluster, Pod: "slurm/" + *pod, UID: "uid-" + *pod, Role: role.Role(*as)}
	if err := serve(*address, *pair, *token, id); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(address, pair, token string, id peerserver.Identity) error {
	certificate, err := tls.LoadX509KeyPair(pair, pair)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	tell := func(l line) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(l) // a test that is over reads nothing
	}
	s := peerserver.NewServer(peerserver.ServerOptions{
		Reported: func(_ peerserver.Identity, r wire.Report) error { tell(line{Report: &r}); return nil },
		Authenticate: func(_ context.Context, shown string) (peerserver.Identity, error) {
			if shown != token {
				return peerserver.Identity{}, peerserver.ErrNotAllowed
			}
			return id, nil
		},
	})
	s.Sync()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() {
		_ = s.Serve(l, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13})
	}()
	tell(line{Address: l.Addr().String()})
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return err
		}
		done := line{Done: true}
		if err := o.do(s); err != nil {
			done.Fault = err.Error()
		}
		tell(done)
	}
	return nil
}

func (o order) do(s *peerserver.Server) error {
	switch {
	case o.Put != nil:
		_, err := s.Put(cluster, peerserver.Claim{Peer: *o.Put})
		return err
	case o.Self != nil:
		return s.SetSelf(cluster, o.UID, *o.Self)
	}
	s.Delete(cluster, o.Delete, o.Lost)
	return nil
}
