package pod

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Network is a bridge with a /16 of its own, and a network namespace per pod.
type Network struct {
	bridge netlink.Link
	dir    string
	next   int
	peers  map[string]string // the bridge's end of each pod's cable
}

const (
	bridgeName = "pods0"
	gateway    = "10.88.0.1"
)

var mask = net.CIDRMask(16, 32)

// NewNetwork brings up the loopback and the bridge in this process's network
// namespace. The pods' namespaces are kept as files in dir.
func NewNetwork(dir string) (*Network, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make network: %v", err)
	}
	if err := linkUp("lo"); err != nil {
		return nil, err
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("cannot make bridge: %v", err)
	}
	if err := netlink.AddrAdd(bridge, address(gateway)); err != nil {
		return nil, fmt.Errorf("cannot make bridge: %v", err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return nil, fmt.Errorf("cannot make bridge: %v", err)
	}
	return &Network{bridge: bridge, dir: dir, peers: map[string]string{}}, nil
}

// Add makes a pod's network namespace with an address nobody had before: a new
// pod has a new address, as on Kubernetes.
func (n *Network) Add(pod string) (file, ip string, err error) {
	n.next++
	ip = fmt.Sprintf("10.88.%d.%d", 1+n.next/250, 1+n.next%250)
	file = filepath.Join(n.dir, pod)
	peer := fmt.Sprintf("pod%d", n.next)
	ns, err := newNamespace(file)
	if err != nil {
		return "", "", err
	}
	defer unix.Close(ns)
	if err := n.connect(peer, ns, ip); err != nil {
		return "", "", fmt.Errorf("cannot connect pod %s: %v", pod, err)
	}
	n.peers[pod] = peer
	return file, ip, nil
}

// Link pulls a pod's cable out, or plugs it in again.
func (n *Network) Link(pod string, plugged bool) error {
	link, err := netlink.LinkByName(n.peers[pod])
	if err != nil {
		return fmt.Errorf("cannot find the link of pod %s: %v", pod, err)
	}
	set := netlink.LinkSetDown
	if plugged {
		set = netlink.LinkSetUp
	}
	if err := set(link); err != nil {
		return fmt.Errorf("cannot set the link of pod %s: %v", pod, err)
	}
	return nil
}

// Remove drops a pod's namespace; its end of the link goes with it.
func (n *Network) Remove(pod string) error {
	delete(n.peers, pod)
	file := filepath.Join(n.dir, pod)
	if err := unix.Unmount(file, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot remove network namespace: %v", err)
	}
	if err := os.Remove(file); err != nil {
		return fmt.Errorf("cannot remove network namespace: %v", err)
	}
	return nil
}

func (n *Network) connect(peer string, ns int, ip string) error {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: peer, MasterIndex: n.bridge.Attrs().Index}, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns)}
	if err := netlink.LinkAdd(veth); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(veth); err != nil {
		return err
	}
	return inNamespace(ns, func() error { return setUpPod(ip) })
}

func setUpPod(ip string) error {
	if err := linkUp("lo"); err != nil {
		return err
	}
	eth, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(eth, address(ip)); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(eth); err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: net.ParseIP(gateway)})
}

// newNamespace makes a network namespace, keeps it at file and returns it open.
func newNamespace(file string) (int, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return -1, fmt.Errorf("cannot make network namespace: %v", err)
	}
	f.Close()
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", file, "", unix.MS_BIND, "")
	})
	if err != nil {
		return -1, fmt.Errorf("cannot make network namespace: %v", err)
	}
	return unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

func inNamespace(ns int, do func() error) error {
	return onThread(func() error {
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("cannot enter network namespace: %v", err)
		}
		return do()
	})
}

// onThread runs do on a thread of its own, which may enter another network
// namespace and is brought back. It must not end instead: the processes it
// started, for any goroutine, would go to the main thread, which reaps orphans,
// and os/exec would not find them.
func onThread(do func() error) error {
	runtime.LockOSThread()
	home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("cannot open own network namespace: %v", err)
	}
	defer unix.Close(home)
	err = do()
	if back := unix.Setns(home, unix.CLONE_NEWNET); back != nil {
		panic(fmt.Sprintf("cannot return to own network namespace: %v", back))
	}
	runtime.UnlockOSThread()
	return err
}

func linkUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("cannot find link %s: %v", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("cannot bring up %s: %v", name, err)
	}
	return nil
}

func address(ip string) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(ip), Mask: mask}}
}
