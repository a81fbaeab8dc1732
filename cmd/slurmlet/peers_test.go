package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/link/peers"
)

// podToken is what the agent shows, and kubeletsHosts the hosts file as the kubelet has made it.
const (
	podToken      = "a.pods.token"
	kubeletsHosts = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n10.0.0.1\tn1\n"
	theMark       = " # slurmlet.dev/peer\n"
)

// tableServer is the controller's side, with TLS and the server of internal/link/peers.
type tableServer struct {
	t       *testing.T
	server  *peers.Server
	address string
	ca      string // PEM
	config  *tls.Config
	// role and pod are of the pod whose token it is. told has what slurmctld's agent has reported, by the names of
	// nodes, and reports how often.
	role    string
	pod     string
	lock    sync.Mutex
	told    map[string]peers.NodeReport
	reports int
}

func newTableServer(t *testing.T) *tableServer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	s := &tableServer{
		t: t, role: "slurmd", pod: "n1", address: "127.0.0.1:0", ca: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		config: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
	}
	s.begin()
	t.Cleanup(func() { s.server.Close() })
	return s
}

// begin is a new process of the controller, which has told nobody anything.
func (s *tableServer) begin() {
	s.server = peers.NewServer(peers.ServerOptions{Reported: s.reported, Authenticate: func(_ context.Context, token string) (peers.Identity, error) {
		if token != podToken {
			return peers.Identity{}, peers.ErrNotAllowed
		}
		return peers.Identity{Cluster: "c", Pod: "slurm/" + s.pod, UID: "uid-" + s.pod, Role: s.role}, nil
	}})
	s.server.Sync()
	var l net.Listener
	require.Eventually(s.t, func() (listens bool) {
		var err error
		l, err = net.Listen("tcp", s.address)
		return err == nil
	}, limit, 10*time.Millisecond)
	s.address = l.Addr().String()
	server := s.server
	go func() { _ = server.Serve(l, s.config) }()
}

// given has the agent follow the server.
func (s *tableServer) given(g given) given {
	files := map[string]string{"hosts": kubeletsHosts, "peers/ca.crt": s.ca, "peers/token": podToken}
	maps.Copy(files, g.files)
	g.files = files
	g.env = append(g.env, "SLURMLET_PEERS="+s.address)
	return g
}

func (s *tableServer) put(name, role, address string) act {
	return func(*container) {
		_, err := s.server.Put("c", peers.Claim{Peer: peers.Peer{Name: name, UID: "uid-" + name, Role: role, Addresses: []netip.Addr{netip.MustParseAddr(address)}}})
		require.NoError(s.t, err)
	}
}

func (s *tableServer) gone(name string) act {
	return func(*container) { s.server.Delete("c", "uid-"+name, false) }
}

func (s *tableServer) self(self func() peers.Self) act {
	return func(*container) { require.NoError(s.t, s.server.SetSelf("c", "uid-n1", self())) }
}

func (s *tableServer) wantsDrain(reason string) act {
	return s.self(func() peers.Self { return peers.Self{Machine: "m1", Drain: reason} })
}

// resolves: the hosts file has just these names with an address, beside those of others.
func resolves(want ...string) condition {
	return func(c *container) error {
		text, err := os.ReadFile(c.path("hosts"))
		if err != nil {
			return err
		}
		have := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			if own, is := strings.CutSuffix(line, theMark); is && !strings.HasPrefix(line, "#") {
				have[strings.Join(strings.Fields(own), " ")] = true
			}
		}
		for _, one := range want {
			if !have[one] {
				return fmt.Errorf("want %q, have %v", want, have)
			}
		}
		if len(have) != len(want) {
			return fmt.Errorf("want only %q, have %v", want, have)
		}
		return nil
	}
}

// connected is whether the stream stands.
func connected(want bool) condition {
	return func(c *container) error {
		s, err := c.status()
		if err == nil && (s.Peers == nil || s.Peers.Connected != want) {
			err = fmt.Errorf("want a stream: %v, have %+v", want, s.Peers)
		}
		return err
	}
}

// peersFault is a part of what the status says.
func peersFault(want string) condition {
	return func(c *container) error {
		s, err := c.status()
		if err == nil && (s.Peers == nil || !strings.Contains(s.Peers.Fault+s.Peers.HostsFault, want)) {
			err = fmt.Errorf("want %q, have %+v", want, s.Peers)
		}
		return err
	}
}

const cordoned = "update nodename=n1 state=drain reason=slurmlet cordon: "

// TestPeers: names of the cluster's pods, and what Kubernetes knows of this one.
func TestPeers(t *testing.T) {
	t.Parallel()
	for name, story := range map[string]func(*tableServer) (given, []phase){
		"names come and go, and other lines stay": func(s *tableServer) (given, []phase) {
			return given{role: "slurmd"}, []phase{
				{"two peers", []act{s.put("n1", "slurmd", "10.0.0.1"), s.put("n2", "slurmd", "10.0.0.2"), s.put("n3", "slurmd", "fd00::3")}, []condition{
					resolves("10.0.0.2 n2", "fd00::3 n3"), isReady, connected(true),
				}},
				{"one goes, and one moves", []act{s.gone("n2"), s.put("n3", "slurmd", "fd00::4")}, []condition{resolves("fd00::4 n3")}},
				{"the kubelet writes the file anew", []act{func(c *container) { c.put("hosts", kubeletsHosts+"10.9.9.9 n4\n") }}, []condition{resolves("fd00::4 n3")}},
				{"another line has a name", []act{s.put("n4", "slurmd", "10.0.0.4")}, []condition{
					resolves("fd00::4 n3"), logged(entry{"level": "WARN", "names": "n4"}),
				}},
			}
		},
		"slurmctld is found where it is": func(s *tableServer) (given, []phase) {
			return given{role: "slurmd", noController: true, controllerHost: "slurm-ctl.invalid"}, []phase{
				{"nobody knows slurmctld", nil, []condition{is(lifecycle.Starting, reaching, ""), connected(true)}},
				{"its pod has an address", []act{openController, s.put("slurm-ctl-0", "slurmctld", "127.0.0.1")}, []condition{
					isReady, resolves("127.0.0.1 slurm-ctl-0", "127.0.0.1 slurm-ctl.invalid"),
				}},
				{"it moves", []act{s.gone("slurm-ctl-0"), s.put("slurm-ctl-1", "slurmctld", "127.0.0.2")}, []condition{resolves("127.0.0.2 slurm-ctl-1", "127.0.0.2 slurm-ctl.invalid")}},
				{"it goes: DNS has its name", []act{s.gone("slurm-ctl-1")}, []condition{resolves()}},
			}
		},
		"pods that are named as the hosts of slurm.conf": func(s *tableServer) (given, []phase) {
			conf := func(dbd string) string {
				return "ClusterName=c\nSlurmctldHost=ctl(slurm-ctl)\nAccountingStorageHost=" + dbd + "\nNodeName=n3 NodeHostname=n2\n"
			}
			const file = "spool/conf-cache/slurm.conf"
			return given{role: "slurmd", files: map[string]string{file: conf("slurm-dbd:6819")}}, []phase{
				{"nodes lead nobody to themselves", []act{
					s.put("slurm-dbd", "slurmd", "10.0.0.6"), s.put("slurm-ctl", "slurmd", "10.0.0.7"), s.put("ctl", "login", "10.0.0.8"), s.put("n2", "slurmd", "10.0.0.2"),
				}, []condition{resolves("10.0.0.2 n2"), isReady, logged(entry{"level": "WARN", "msg": "pods have names of slurm.conf's hosts", "names": "slurm-dbd"})}},
				{"slurmdbd's pod has its name", []act{s.gone("slurm-dbd"), s.put("slurm-dbd", "slurmdbd", "10.0.0.9")}, []condition{resolves("10.0.0.2 n2", "10.0.0.9 slurm-dbd")}},
				{"an edit names another host", []act{func(c *container) { c.put(file, conf("n2")) }, s.put("n4", "slurmd", "10.0.0.4")}, []condition{
					resolves("10.0.0.4 n4", "10.0.0.9 slurm-dbd"),
				}},
			}
		},
		"a pod that is named as slurmctld's Service": func(s *tableServer) (given, []phase) {
			return given{role: "slurmd", noController: true, controllerHost: "slurm-ctl"}, []phase{
				{"it leads nobody to itself", []act{s.put("slurm-ctl", "slurmd", "127.0.0.9"), s.put("n2", "slurmd", "10.0.0.2")}, []condition{resolves("10.0.0.2 n2"), connected(true)}},
				{"slurmctld comes", []act{openController, s.put("slurm-ctl-0", "slurmctld", "127.0.0.1")}, []condition{
					isReady, resolves("10.0.0.2 n2", "127.0.0.1 slurm-ctl-0", "127.0.0.1 slurm-ctl"),
				}},
				{"the other one goes", []act{s.gone("slurm-ctl"), s.gone("n2")}, []condition{resolves("127.0.0.1 slurm-ctl-0", "127.0.0.1 slurm-ctl")}},
			}
		},
		"the controller is away, and comes back": func(s *tableServer) (given, []phase) {
			return given{role: "slurmctld"}, []phase{
				{"a peer", []act{s.put("n2", "slurmd", "10.0.0.2")}, []condition{resolves("10.0.0.2 n2"), isReady}},
				{"it is away", []act{func(*container) { s.server.Close() }}, []condition{
					connected(false), resolves("10.0.0.2 n2"), isReady, logged(entry{"level": "WARN", "msg": "the last one stays"}),
				}},
				{"it comes back, and knows more", []act{func(c *container) {
					s.begin()
					s.put("n2", "slurmd", "10.0.0.9")(c)
					s.put("n3", "slurmd", "10.0.0.3")(c)
				}}, []condition{
					connected(true), resolves("10.0.0.9 n2", "10.0.0.3 n3"),
				}},
			}
		},
		"a hosts file that cannot be written": func(s *tableServer) (given, []phase) {
			return given{role: "slurmd", files: map[string]string{"hosts.readonly": ""}}, []phase{
				{"it is told, and all else goes on", []act{s.put("n2", "slurmd", "10.0.0.2")}, []condition{
					isReady, connected(true), peersFault("read-only file system"), logged(entry{"level": "WARN", "msg": "DNS is asked"}), resolves(),
				}},
			}
		},
		"a token that a job could read": func(s *tableServer) (given, []phase) {
			return given{role: "slurmd"}, []phase{
				{"others can read it", []act{func(c *container) { require.NoError(t, os.Chmod(c.path("peers/token"), 0o444)) }, func(*container) { s.server.Close(); s.begin() }}, []condition{
					connected(false), peersFault("want 0400"), isReady,
				}},
				{"it is mended", []act{func(c *container) { require.NoError(t, os.Chmod(c.path("peers/token"), 0o400)) }, s.put("n2", "slurmd", "10.0.0.2")}, []condition{
					connected(true), resolves("10.0.0.2 n2"),
				}},
			}
		},
		"a deadline": func(s *tableServer) (given, []phase) {
			g := withJob([]string{"SLURMLET_GRACE_PERIOD=24h"})
			in := func(d time.Duration) act {
				return s.self(func() peers.Self { return peers.Self{Deadline: time.Now().Add(d)} })
			}
			return g, []phase{
				{"as long as the grace period", []act{awaitReady, in(24 * time.Hour), signal(unix.SIGTERM)}, []condition{waits}},
				{"a shorter one", []act{in(30 * time.Second)}, append(saves, logged(entry{"by": "the pod's deletion in Kubernetes"}))},
			}
		},
		"cordon and uncordon": func(s *tableServer) (given, []phase) {
			return withJob(nil), []phase{
				{"cordon", []act{awaitReady, s.wantsDrain("cordoned")}, []condition{wrote(cordoned+"cordoned", 1), recordIs("slurmlet cordon: cordoned"), isReady}},
				{"another reason", []act{s.wantsDrain("the machine is reclaimed")}, []condition{recordIs("slurmlet cordon: the machine is reclaimed")}},
				{"a new slurmd", []act{remember, signal(unix.SIGHUP)}, []condition{handedOver, isReady, recordIs("slurmlet cordon: "), never(resumed)}},
				{"uncordon", []act{s.wantsDrain("")}, []condition{wrote(resumed, 1), recordIs("slurmlet: the node takes jobs again")}},
			}
		},
		"cordon and uncordon of an elastic node": func(s *tableServer) (given, []phase) {
			const cordonedElastic = "update nodename=n1 state=power_down_asap reason=slurmlet cordon: "
			return elastic(cloudUp, []string{aliceScript}, map[string]string{"jobs/5": alices}), []phase{
				{"cordon", []act{awaitReady, s.wantsDrain("cordoned")}, []condition{wrote(cordonedElastic+"cordoned", 1), recordIs("POWER_DOWN"), isReady}},
				{"uncordon", []act{s.wantsDrain("")}, []condition{wrote(resumed, 1), recordIs("slurmlet: the node takes jobs again")}},
				{"cordon", []act{s.wantsDrain("cordoned anew")}, []condition{recordIs("slurmlet cordon: cordoned anew"), isReady}},
				{"the job ends, and slurmctld has the pod deleted", append(endJob, signal(unix.SIGTERM)), append(goesDown, recordIs("slurmlet cordon: cordoned anew"))},
			}
		},
		"what the machine gives its nodes": func(s *tableServer) (given, []phase) {
			gives := func(features ...string) act {
				return s.self(func() peers.Self { return peers.Self{Machine: "m1", Features: features, Weight: "7"} })
			}
			return given{role: "slurmd"}, []phase{
				{"features and a weight", []act{awaitReady, gives("zone-a", "a100")}, []condition{
					wrote("update nodename=n1 availablefeatures=a100,zone-a activefeatures=a100,zone-a weight=7", 1), isReady,
				}},
				{"and the pod's own", []act{annotate("slurmlet.dev/features", "big")}, []condition{wrote("availablefeatures=a100,big,zone-a", 1), isReady}},
				{"the machine has none any more", []act{s.wantsDrain("")}, []condition{wrote("availablefeatures=big activefeatures=big weight=1", 1), isReady}},
				{"what Slurm does not take for a feature", []act{gives("a b")}, []condition{logged(entry{"level": "WARN", "error": `Kubernetes node m1: cannot use "a b"`}), wrote("weight=7", 2)}},
			}
		},
		"cordoned while an administrator's drain stands": func(s *tableServer) (given, []phase) {
			return given{role: "slurmd", files: record(anAdmin)}, []phase{
				{"cordon", []act{awaitReady, s.wantsDrain("cordoned")}, []condition{wrote(asked, 2), recordIs("disk is full")}},
				{"uncordon", []act{s.wantsDrain("")}, []condition{wrote(asked, 3), recordIs("disk is full"), never("update")}},
			}
		},
		"an administrator lifts a drain of a cordoned machine": func(s *tableServer) (given, []phase) {
			return given{role: "slurmd", files: record(anAdmin)}, []phase{
				{"cordon", []act{awaitReady, s.wantsDrain("machine m1 is cordoned")}, []condition{wrote(asked, 2), recordIs("disk is full")}},
				{"the administrator resumes the node", []act{func(c *container) { c.put("node.json", fits) }}, []condition{
					wrote(cordoned+"machine m1 is cordoned", 1), recordIs("slurmlet cordon: machine m1 is cordoned"),
				}},
			}
		},
		"the pod has left a cordoned machine, and the controller is away": func(s *tableServer) (given, []phase) {
			s.server.Close()
			return given{role: "slurmd", files: record(leftBy + `"slurmlet cordon: machine m1 is cordoned"}`), env: []string{"SLURMLET_MACHINE=m2"}}, []phase{
				{"the node is resumed", nil, []condition{wrote(resumed, 1), recordIs("slurmlet: the node takes jobs again"), logged(entry{"level": "INFO", "machine": "m2"})}},
			}
		},
		"the pod is back on a cordoned machine, and the controller is away": func(s *tableServer) (given, []phase) {
			s.server.Close()
			return given{role: "slurmd", files: record(leftBy + `"slurmlet cordon: machine m1 is cordoned"}`), env: []string{"SLURMLET_MACHINE=m1"}}, []phase{
				{"it looks once, and leaves the drain", []act{awaitReady}, []condition{wrote(asked, 2), recordIs("slurmlet cordon: machine m1"), never("update")}},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTableServer(t)
			g, phases := story(s)
			play(t, s.given(g), phases...)
		})
	}
}
