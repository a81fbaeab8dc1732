package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// podToken is what the agent shows, and kubeletsHosts the hosts file as the kubelet has made it.
const (
	podToken      = "a.pods.token"
	kubeletsHosts = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n10.0.0.1\tn1\n"
	theMark       = " # slurmlet.dev/peer\n"
)

// tableServer is the controller's side: a process with TLS and the controller's own server of the peers. The agent's module
// cannot import that server, so it is a program of e2e's.
type tableServer struct {
	t       *testing.T
	address string
	ca      string // PEM
	// pair is a file with the certificate and its key. role and pod are of the pod whose token it is.
	pair      string
	role, pod string

	// program is nil while no controller runs, and done has what became of each order.
	program *exec.Cmd
	orders  io.WriteCloser
	done    chan serverLine
	ended   chan struct{}

	lock sync.Mutex
	// told has what slurmctld's agent has reported, by the names of nodes, and reports how often.
	told    map[string]wire.NodeReport
	reports int
}

// serverLine is a line of e2e/fakecontroller/serve.
type serverLine struct {
	Address, Fault string
	Done           bool
	Report         *wire.Report
}

// serverOrder is an order to it.
type serverOrder struct {
	Put    *wire.Peer `json:",omitempty"`
	Delete string     `json:",omitempty"`
	Lost   bool       `json:",omitempty"`
	UID    string     `json:",omitempty"`
	Self   *wire.Self `json:",omitempty"`
}

func newTableServer(t *testing.T, role, pod string) *tableServer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s := &tableServer{t: t, role: role, pod: pod, address: "127.0.0.1:0", ca: string(ca), pair: filepath.Join(t.TempDir(), "pair.pem")}
	require.NoError(t, os.WriteFile(s.pair, append(ca, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), 0o600))
	s.begin()
	t.Cleanup(s.stop)
	return s
}

// begin is a new process of the controller, which has told nobody anything.
func (s *tableServer) begin() {
	s.program = exec.Command(peersServer, "-listen", s.address, "-pair", s.pair, "-token", podToken, "-pod", s.pod, "-role", s.role)
	var err error
	s.orders, err = s.program.StdinPipe()
	require.NoError(s.t, err)
	said, err := s.program.StdoutPipe()
	require.NoError(s.t, err)
	s.program.Stderr = os.Stderr
	require.NoError(s.t, s.program.Start())
	s.done, s.ended = make(chan serverLine, 1), make(chan struct{})
	go s.hear(said)
	first, is := <-s.done
	require.True(s.t, is, "the server of the peers has ended")
	s.address = first.Address
}

// hear takes what the server says, until it ends.
func (s *tableServer) hear(said io.Reader) {
	defer close(s.ended)
	defer close(s.done)
	for lines := json.NewDecoder(said); ; {
		var l serverLine
		if lines.Decode(&l) != nil {
			return
		}
		if l.Report != nil {
			s.reported(*l.Report)
			continue
		}
		s.done <- l
	}
}

// stop ends the controller's process, and returns when nothing of it is left.
func (s *tableServer) stop() {
	if s.program == nil {
		return
	}
	_ = s.program.Process.Kill()
	<-s.ended
	_ = s.program.Wait() // it was killed
	s.program = nil
}

// tell has the server do an order.
func (s *tableServer) tell(o serverOrder) {
	require.NoError(s.t, json.NewEncoder(s.orders).Encode(o))
	done, is := <-s.done
	require.True(s.t, is, "the server of the peers has ended")
	require.Empty(s.t, done.Fault)
}

// given has the agent follow the server.
func (s *tableServer) given(g given) given {
	files := map[string]string{"hosts": kubeletsHosts, "peers/ca.crt": s.ca, "peers/token": podToken}
	maps.Copy(files, g.files)
	g.files = files
	g.env = append(g.env, "SLURMLET_PEERS="+s.address)
	return g
}

func (s *tableServer) put(name, is, address string) act {
	return func(*container) {
		s.tell(serverOrder{Put: &wire.Peer{Name: name, UID: "uid-" + name, Role: role.Role(is), Addresses: []netip.Addr{netip.MustParseAddr(address)}}})
	}
}

func (s *tableServer) gone(name string) act {
	return func(*container) { s.tell(serverOrder{Delete: "uid-" + name}) }
}

func (s *tableServer) self(self func() wire.Self) act {
	return func(*container) {
		now := self()
		s.tell(serverOrder{UID: "uid-n1", Self: &now})
	}
}

func (s *tableServer) wantsDrain(reason string) act {
	return s.self(func() wire.Self { return wire.Self{Machine: "m1", Drain: reason} })
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
			return given{role: "slurmd", noSlurmctld: true, slurmctldHost: "slurm-ctl.invalid"}, []phase{
				{"nobody knows slurmctld", nil, []condition{is(supervisor.Starting, reaching, ""), connected(true)}},
				{"its pod has an address", []act{openSlurmctld, s.put("slurm-ctl-0", "slurmctld", "127.0.0.1")}, []condition{
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
			return given{role: "slurmd", noSlurmctld: true, slurmctldHost: "slurm-ctl"}, []phase{
				{"it leads nobody to itself", []act{s.put("slurm-ctl", "slurmd", "127.0.0.9"), s.put("n2", "slurmd", "10.0.0.2")}, []condition{resolves("10.0.0.2 n2"), connected(true)}},
				{"slurmctld comes", []act{openSlurmctld, s.put("slurm-ctl-0", "slurmctld", "127.0.0.1")}, []condition{
					isReady, resolves("10.0.0.2 n2", "127.0.0.1 slurm-ctl-0", "127.0.0.1 slurm-ctl"),
				}},
				{"the other one goes", []act{s.gone("slurm-ctl"), s.gone("n2")}, []condition{resolves("127.0.0.1 slurm-ctl-0", "127.0.0.1 slurm-ctl")}},
			}
		},
		"the controller is away, and comes back": func(s *tableServer) (given, []phase) {
			return given{role: "slurmctld"}, []phase{
				{"a peer", []act{s.put("n2", "slurmd", "10.0.0.2")}, []condition{resolves("10.0.0.2 n2"), isReady}},
				{"it is away", []act{func(*container) { s.stop() }}, []condition{
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
				{"others can read it", []act{func(c *container) { require.NoError(t, os.Chmod(c.path("peers/token"), 0o444)) }, func(*container) { s.stop(); s.begin() }}, []condition{
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
				return s.self(func() wire.Self { return wire.Self{Deadline: time.Now().Add(d)} })
			}
			return g, []phase{
				{"as long as the grace period", []act{awaitReady, in(24 * time.Hour), signal(unix.SIGTERM)}, []condition{waits}},
				{"a shorter one", []act{in(30 * time.Second)}, []condition{requeues, logged(entry{"by": "the pod's deletion in Kubernetes"})}},
				saves,
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
				return s.self(func() wire.Self { return wire.Self{Machine: "m1", Features: features, Weight: "7"} })
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
			s.stop()
			return given{role: "slurmd", files: record(leftBy + `"slurmlet cordon: machine m1 is cordoned"}`), env: []string{"SLURMLET_MACHINE=m2"}}, []phase{
				{"the node is resumed", nil, []condition{wrote(resumed, 1), recordIs("slurmlet: the node takes jobs again"), logged(entry{"level": "INFO", "machine": "m2"})}},
			}
		},
		"the pod is back on a cordoned machine, and the controller is away": func(s *tableServer) (given, []phase) {
			s.stop()
			return given{role: "slurmd", files: record(leftBy + `"slurmlet cordon: machine m1 is cordoned"}`), env: []string{"SLURMLET_MACHINE=m1"}}, []phase{
				{"it looks once, and leaves the drain", []act{awaitReady}, []condition{wrote(asked, 2), recordIs("slurmlet cordon: machine m1"), never("update")}},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTableServer(t, "slurmd", "n1")
			g, phases := story(s)
			play(t, s.given(g), phases...)
		})
	}
}
