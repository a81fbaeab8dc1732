package podnames

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// doubtAfter is how long the controller must be away before the agent asks whether slurmctld is still where
// the table has it, and how often it does. 10,000 agents open 170 connections a second.
const doubtAfter = time.Minute

// away: without a controller that hears of Kubernetes, the last table holds as long as slurmctld takes
// connections there. A slurmctld that has moved is found by DNS, which the hosts file comes before.
func (n *Names) away(since time.Time) {
	now := time.Now()
	if now.Sub(since) < doubtAfter || now.Sub(n.doubted) < doubtAfter {
		return
	}
	n.doubted = now
	n.mu.Lock()
	table := maps.Clone(n.slurmctlds)
	n.mu.Unlock()
	first, _, _ := strings.Cut(n.Slurmctld, ",")
	_, port, _ := net.SplitHostPort(first) // the settings have made it
	for _, p := range table {
		for _, address := range p.Addresses {
			conn, err := net.DialTimeout("tcp", net.JoinHostPort(address.String(), port), reachTimeout)
			if err == nil {
				_ = conn.Close() // nothing was said
				return
			}
		}
	}
	n.order.Lock()
	names := n.forget(slices.Collect(maps.Keys(table)))
	if len(names) > 0 {
		n.wrote(n.hosts.Set(names))
	}
	n.order.Unlock()
	if len(names) == 0 {
		return
	}
	n.Log(slog.LevelWarn,
		"slurmctld takes no connection where slurmlet's controller knew it, and the controller is away: DNS is asked",
		slog.Any("names", slices.Sorted(maps.Keys(names))))
	n.Moved()
}

// reachTimeout is how long slurmctld may take to accept a connection before DNS is asked.
const reachTimeout = 3 * time.Second

// forget takes slurmctlds out of the table until the controller sends them again.
func (n *Names) forget(slurmctlds []string) (names map[string][]netip.Addr) {
	n.client.Forget(slurmctlds...)
	n.mu.Lock()
	defer n.mu.Unlock()
	names = map[string][]netip.Addr{}
	for _, name := range slurmctlds {
		delete(n.missing, name)
		delete(n.slurmctlds, name)
		names[name] = nil
	}
	for alias := range n.aliases {
		names[alias] = nil
	}
	n.aliases = map[string][]netip.Addr{}
	return names
}

// find is where the table has a host of SLURMLET_SLURMCTLD. Go's own resolver looks at the hosts file
// only every five seconds.
func (n *Names) find(host string) []netip.Addr {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p, known := n.slurmctlds[host]; known {
		return p.Addresses
	}
	return n.aliases[host]
}

// Reach succeeds when one slurmctld takes connections at an address of SLURMLET_SLURMCTLD, or where the table has it. A slurmd
// that cannot get its configuration asks again only after 10 s.
func (n *Names) Reach(ctx context.Context, controllers string) error {
	var faults []error
	for _, address := range n.addresses(controllers) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		faults = append(faults, fmt.Errorf("cannot reach slurmctld: %w", err))
	}
	return errors.Join(faults...)
}

// addresses are where slurmctld may be: by the controller's table, and then by its name.
func (n *Names) addresses(controllers string) (all []string) {
	for address := range strings.SplitSeq(controllers, ",") {
		host, port, _ := net.SplitHostPort(address) // the settings have made it
		for _, one := range n.find(host) {
			all = append(all, net.JoinHostPort(one.String(), port))
		}
		all = append(all, address)
	}
	return all
}
