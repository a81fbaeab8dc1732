package native

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Host is slurmctld's host name, that of the namespaces themselves, and Address
// is its address.
const (
	Host    = "ctl"
	Address = "10.88.0.1"
	// address6 is the one where there is no other family.
	address6 = "fd88::1"
)

// gateway is slurmctld's address in the family of another.
func gateway(ip net.IP) net.IP {
	if ip.To4() == nil {
		return net.ParseIP(address6)
	}
	return net.ParseIP(Address)
}

// network6 gives slurmctld's machine an address for nodes that have IPv6 alone.
func network6() error {
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0); err != nil {
		return fmt.Errorf("cannot make the network: %w", err)
	}
	link, err := netlink.LinkByName("ctl0")
	if err == nil {
		err = netlink.AddrReplace(link, address(net.ParseIP(address6))) // of an earlier cluster
	}
	if err != nil {
		return fmt.Errorf("cannot give the network interface its address: %w", err)
	}
	return nil
}

// network: with no address but lo's, Slurm listens nowhere.
func network() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("cannot make the network: %w", err)
	}
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "ctl0"}, PeerName: "ctl1"}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("cannot add a network interface: %w", err)
	}
	if err := netlink.AddrAdd(veth, address(net.ParseIP(Address))); err != nil {
		return fmt.Errorf("cannot give the network interface its address: %w", err)
	}
	for _, name := range []string{"lo", "ctl0", "ctl1"} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("cannot find the network interface %s: %w", name, err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("cannot bring up the network interface %s: %w", name, err)
		}
	}
	return nil
}

// Both ends of every cable have the same hardware addresses: no two cables meet.
var (
	ctlMAC  = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	nodeMAC = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

// connect lays a cable into the network namespace of a process. It is routed,
// and both ends know each other's hardware address: a bridge takes 1023 cables,
// and ARP 1024 neighbours on the whole machine (arp(7), gc_thresh3), which are
// not ours to raise.
func connect(name string, pid int, ip net.IP) error {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("cannot find the network namespace: %w", err)
	}
	defer ns.Close()
	inner, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("cannot enter the network namespace: %w", err)
	}
	defer inner.Close()
	outer, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("cannot speak to the kernel: %w", err)
	}
	defer outer.Close()
	cable := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: ctlMAC},
		PeerName:  "eth0", PeerHardwareAddr: nodeMAC, PeerNamespace: netlink.NsPid(pid),
	}
	// The kernel removes that of an earlier node some time after its namespace.
	gone := Within(Limit, "an earlier "+name+" is not gone", func() bool {
		err = outer.LinkAdd(cable)
		return !errors.Is(err, unix.EEXIST)
	})
	if err := errors.Join(err, gone); err != nil {
		return fmt.Errorf("cannot add a network interface: %w", err)
	}
	if lo, err := inner.LinkByName("lo"); err != nil {
		return fmt.Errorf("cannot find lo: %w", err)
	} else if err := inner.LinkSetUp(lo); err != nil { // a node speaks to itself by it
		return fmt.Errorf("cannot bring up lo: %w", err)
	}
	if err := plug(inner, "eth0", ip, gateway(ip), ctlMAC); err != nil {
		return err
	}
	if err := route(inner, "eth0", anywhere(ip), gateway(ip)); err != nil {
		return err
	}
	return plug(outer, name, nil, ip, nodeMAC)
}

// Cut takes a node's cable away, with all that is on its way.
func (c *Cluster) Cut(n *Node) error {
	link, err := netlink.LinkByName(n.Name)
	if err == nil {
		err = netlink.LinkSetDown(link)
	}
	if err != nil {
		return fmt.Errorf("cannot cut %s off: %w", n.Name, err)
	}
	return nil
}

// Mend gives a node that was cut off its cable back.
func (c *Cluster) Mend(n *Node) error {
	outer, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("cannot speak to the kernel: %w", err)
	}
	defer outer.Close()
	return plug(outer, n.Name, nil, n.IP, nodeMAC)
}

// plug brings one end up, with its own address if there is one, and the way to
// the other.
func plug(h *netlink.Handle, name string, own, other net.IP, mac net.HardwareAddr) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("cannot find the network interface %s: %w", name, err)
	}
	if own != nil {
		if err := h.AddrAdd(link, address(own)); err != nil {
			return fmt.Errorf("cannot give %s its address: %w", name, err)
		}
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("cannot bring up %s: %w", name, err)
	}
	neighbour := &netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: other, HardwareAddr: mac}
	if err := h.NeighSet(neighbour); err != nil {
		return fmt.Errorf("cannot tell %s its neighbour: %w", name, err)
	}
	return route(h, name, alone(other), nil)
}

func route(h *netlink.Handle, name string, to *net.IPNet, via net.IP) error {
	link, err := h.LinkByName(name)
	if err == nil {
		r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: to, Gw: via}
		if via == nil {
			r.Scope = netlink.SCOPE_LINK
		}
		err = h.RouteAdd(r)
	}
	if err != nil {
		return fmt.Errorf("cannot add a route on %s: %w", name, err)
	}
	return nil
}

// address is used at once: nobody else has it, which IPv6 would look for.
func address(ip net.IP) *netlink.Addr {
	a := &netlink.Addr{IPNet: alone(ip)}
	if ip.To4() == nil {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

func alone(ip net.IP) *net.IPNet { return &net.IPNet{IP: ip, Mask: net.CIDRMask(bits(ip), bits(ip))} }

// anywhere is the network of all addresses of ip's family.
func anywhere(ip net.IP) *net.IPNet {
	return &net.IPNet{IP: make(net.IP, bits(ip)/8), Mask: net.CIDRMask(0, bits(ip))}
}

func bits(ip net.IP) int {
	if ip.To4() == nil {
		return 8 * net.IPv6len
	}
	return 8 * net.IPv4len
}
