package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/guest"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/machine"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/pod"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
	"github.com/slurmlet/slurmlet/internal/pod/pid1"
	"golang.org/x/sys/unix"
)

// server executes commands about the pods of one sandbox.
type server struct {
	kubelet *pod.Kubelet
	making  making
}

// Run is PID 1 of a sandbox: of a guest, or of a pid namespace. It returns the
// exit code when the sandbox could not be made; else it runs until it is killed. It has to be
// called from the main goroutine.
func Run(boot string) int {
	reaped := make(chan *pod.Kubelet, 1)
	var kubelet *pod.Kubelet // of the main goroutine
	code, err := pid1.Run(func(e pid1.Exit) {
		if kubelet == nil {
			select {
			case kubelet = <-reaped:
			default:
				return // nothing that ends before there are pods is one
			}
		}
		kubelet.Reaped(e.PID, e.Status)
	}, func() int { return report(run(boot, reaped)) })
	if err != nil {
		return report(err)
	}
	if guest.Is(Init) {
		guest.PowerOff()
	}
	return code
}

// say writes to the console, which the launcher keeps in a file.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "sandbox: "+format+"\n", args...) }

func report(err error) int {
	if err != nil {
		say("%v", err)
		return 1
	}
	return 0
}

// Init is the guest's init, in its boot directory, which is its root.
const Init = "/init"

func run(boot string, reaper chan<- *pod.Kubelet) error {
	settings, err := ReadSettings(boot)
	if err != nil {
		return err
	}
	keys, err := remote.ReadKeys(boot)
	if err != nil {
		return err
	}
	listen, err := settings.listener()
	if err != nil {
		return err
	}
	if err := settings.root().Enter(filepath.Join(boot, "scratch")); err != nil {
		return err
	}
	kubelet, err := settings.kubelet()
	if err != nil {
		return err
	}
	reaper <- kubelet
	say("ready")
	return remote.NewServer(keys.Server, keys.Client.PublicKey(), &server{kubelet: kubelet}).Serve(listen)
}

// listener is called while the host's files are still the root; the guest's link
// needs nothing of them.
func (s Settings) listener() (net.Listener, error) {
	if !s.Guest {
		l, err := net.Listen("unix", s.Socket)
		if err != nil {
			return nil, fmt.Errorf("cannot listen: %v", err)
		}
		return l, nil
	}
	if err := guest.SetUp(guest.Link, GuestAddress, LinkPrefix); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", GuestAddress, Port))
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %v", err)
	}
	return l, nil
}

func (s Settings) root() machine.Root { return machine.Root{Debian: s.Root, Guest: s.Guest} }

func (s Settings) kubelet() (*pod.Kubelet, error) {
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return nil, fmt.Errorf("cannot set host name: %v", err)
	}
	if err := os.Setenv("PATH", pod.Path); err != nil {
		return nil, fmt.Errorf("cannot set PATH: %v", err)
	}
	if err := pod.PrepareCgroup(s.Cgroup, !s.NoLimits); err != nil {
		return nil, err
	}
	return pod.NewKubelet(pod.Config{Dir: "/run/sandbox", Cgroup: s.Cgroup, NoLimits: s.NoLimits, MountHost: s.root().MountHost, Event: say})
}

// Dial connects to a port of a pod, or to a socket in it.
func (s *server) Dial(ctx context.Context, name, to string) (net.Conn, error) {
	var d net.Dialer
	if strings.HasPrefix(to, "/") {
		socket, err := s.kubelet.Path(name, to)
		if err != nil {
			return nil, err
		}
		return d.DialContext(ctx, "unix", socket)
	}
	ip, err := s.kubelet.IP(name)
	if err != nil {
		return nil, err
	}
	return d.DialContext(ctx, "tcp", net.JoinHostPort(ip, to))
}
