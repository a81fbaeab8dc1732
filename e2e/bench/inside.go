package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// settings are what the inner bench is told by the outer one.
type settings struct {
	Slurmlet string            // absolute paths
	Standin  string            //
	Roots    map[string]string // by Slurm's version
}

const settingsVariable = "BENCH_SETTINGS"

func (s settings) String() string {
	text, _ := json.Marshal(s) // strings and a map of them: cannot fail
	return string(text)
}

// scratch is a file system of the inner bench's own; nothing of it is left.
const scratch = "/mnt"

// host is the host name in the inner bench, which slurmctld runs on.
const (
	host    = "ctl"
	address = "10.88.0.1"
)

func inside(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("cannot read $%s: %w", settingsVariable, err)
	}
	if err := furnish(); err != nil {
		return err
	}
	var r results
	size, err := os.Stat(s.Slurmlet)
	if err != nil {
		return fmt.Errorf("cannot measure the binary: %w", err)
	}
	r.binary = float64(size.Size()) / mega
	if r.inits, err = measureInits(s); err != nil {
		return err
	}
	for _, version := range slices.Sorted(maps.Keys(s.Roots)) {
		l, err := measureRegistration(s, version)
		if err != nil {
			return fmt.Errorf("cannot measure Slurm %s: %w", version, err)
		}
		r.slurms = append(r.slurms, l)
	}
	return r.print(os.Stdout)
}

// furnish gives the namespaces what every machine has: /proc, a name, a network.
func furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot keep mounts to ourselves: %w", err)
	}
	for _, m := range []mount{{"proc", "/proc", 0, ""}, {"tmpfs", scratch, 0, "mode=755"}} {
		if err := m.mount(); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte(host)); err != nil {
		return fmt.Errorf("cannot set the host name: %w", err)
	}
	return network()
}

type mount struct {
	kind, target string
	flags        uintptr
	data         string
}

func (m mount) mount() error {
	if err := unix.Mount(m.kind, m.target, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("cannot mount %s on %s: %w", m.kind, m.target, err)
	}
	return nil
}

// network: with no address but lo's, Slurm listens nowhere.
func network() error {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "bench0"}, PeerName: "bench1"}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("cannot add a network interface: %w", err)
	}
	if err := netlink.AddrAdd(veth, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(address), Mask: net.CIDRMask(24, 32)}}); err != nil {
		return fmt.Errorf("cannot give the network interface its address: %w", err)
	}
	for _, name := range []string{"lo", "bench0", "bench1"} {
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
