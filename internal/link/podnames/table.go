package podnames

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// missingTime is how long a name stays that another replica's whole table lacks. That replica may have begun
// with an older state of Kubernetes, and sends the pod then within seconds.
const missingTime = time.Minute

// take keeps the slurmctlds, and returns the names that change. moved says that one has another address.
func (n *Names) take(c peers.Change, now time.Time) (names map[string][]netip.Addr, moved bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	names = map[string][]netip.Addr{}
	for _, gone := range c.Gone {
		if c.Whole && !gone.Lost {
			n.missing[gone.Name] = now.Add(missingTime)
			if p, is := n.slurmctlds[gone.Name]; is {
				p.Ending = true // another slurmctld comes before it
				n.slurmctlds[gone.Name] = p
			}
			continue
		}
		names[gone.Name] = nil
		delete(n.missing, gone.Name)
		delete(n.slurmctlds, gone.Name)
	}
	for _, p := range c.Put {
		if p.Name == n.controller || p.Role != role.Slurmctld && slices.Contains(slurmctldHosts(n.Slurmctld), p.Name) {
			continue // a pod of this name would keep the agent from the controller, or from slurmctld
		}
		names[p.Name] = p.Addresses
		delete(n.missing, p.Name)
		delete(n.slurmctlds, p.Name)
		if p.Role == role.Slurmctld {
			n.slurmctlds[p.Name] = p
			moved = moved || len(p.Addresses) > 0
		}
	}
	n.realias(names)
	return names, moved
}

// realias adds to names those of SLURMLET_SLURMCTLD whose addresses may have changed. The caller holds mu.
func (n *Names) realias(names map[string][]netip.Addr) {
	aliases := aliasesOf(slurmctldHosts(n.Slurmctld), n.slurmctlds)
	for name := range n.aliases {
		if aliases[name] == nil && names[name] == nil {
			names[name] = nil
		}
	}
	maps.Copy(names, aliases)
	n.aliases = aliases
}

// dropMissing takes names out of the hosts file that have been missing long enough.
func (n *Names) dropMissing(now time.Time) {
	n.order.Lock()
	defer n.order.Unlock()
	names := map[string][]netip.Addr{}
	n.mu.Lock()
	for name, until := range n.missing {
		if !now.Before(until) {
			names[name] = nil
			delete(n.missing, name)
			delete(n.slurmctlds, name)
		}
	}
	if len(names) > 0 {
		n.realias(names)
	}
	n.mu.Unlock()
	if len(names) > 0 {
		n.wrote(n.hosts.Set(names))
	}
}

// slurmctldHosts are the hosts of SLURMLET_SLURMCTLD.
func slurmctldHosts(addresses string) (hosts []string) {
	for one := range strings.SplitSeq(addresses, ",") {
		host, _, err := net.SplitHostPort(one)
		if err != nil {
			continue
		}
		if _, err := netip.ParseAddr(host); err != nil {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// aliasesOf leads the names of SLURMLET_SLURMCTLD to the pods of slurmctld: by the pod's name, which is
// the first label of its name in DNS, or a single name to the pod that does not end. So slurmctld is found
// where it is now, and by DNS where the table has none.
func aliasesOf(hosts []string, slurmctlds map[string]wire.Peer) map[string][]netip.Addr {
	aliases := map[string][]netip.Addr{}
	for _, host := range hosts {
		label, _, _ := strings.Cut(host, ".")
		_, exact := slurmctlds[host]
		p, known := slurmctlds[label]
		switch {
		case exact: // it is in the table by itself
		case known && len(p.Addresses) > 0:
			aliases[host] = p.Addresses
		case len(hosts) == 1:
			if addresses := anyOf(slurmctlds); len(addresses) > 0 {
				aliases[host] = addresses
			}
		}
	}
	return aliases
}

// anyOf are the addresses of the first slurmctld by name that has one, and rather of one that does not end.
func anyOf(slurmctlds map[string]wire.Peer) (addresses []netip.Addr) {
	for _, name := range slices.Sorted(maps.Keys(slurmctlds)) {
		p := slurmctlds[name]
		if len(p.Addresses) == 0 {
			continue
		}
		if !p.Ending {
			return p.Addresses
		}
		if addresses == nil {
			addresses = p.Addresses
		}
	}
	return addresses
}
