package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/pod/hosts"
	"github.com/slurmlet/slurmlet/internal/pod/watch"
)

// PeersStatus is what the agent knows of its cluster's pods.
type PeersStatus struct {
	peers.ClientStatus
	// Names are those in /etc/hosts. Taken are peers' names that other lines of it have with
	// another address.
	Names int      `json:"names"`
	Taken []string `json:"taken,omitempty"`
	// Foreign are peers' names that slurm.conf gives to other hosts: DNS is asked for them.
	Foreign []string `json:"foreign,omitempty"`
	// HostsFault is why names are missing in /etc/hosts.
	HostsFault string `json:"hosts_fault,omitempty"`
	// Machine is the Kubernetes node, Drain why it wants the node drained, and Deadline when the
	// kubelet kills the pod.
	Machine  string    `json:"machine,omitempty"`
	Drain    string    `json:"drain,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
}

// membership keeps the names of the cluster's pods in /etc/hosts, and does what Kubernetes knows of this
// pod. Without the controller the last table stays.
type membership struct {
	agent  *Agent
	client *peers.Client
	hosts  *hosts.File
	path   string // of the hosts file
	// controller is the host of SLURMLET_PEERS.
	controller string

	mu sync.Mutex
	// slurmctlds are those of the last table, and aliases the names of SLURMLET_CONTROLLER that lead to them.
	slurmctlds map[string]wire.Peer
	aliases    map[string][]netip.Addr
	fault      string
	taken      []string
	self       wire.Self
	// doubted is when slurmctld's address was tried last, without a controller that could tell.
	doubted time.Time
	// missing are peers that a whole table lacked, and when their names go.
	missing map[string]time.Time
	// foreign are peers' names that slurm.conf gives to other hosts.
	foreign []string
	// order keeps changes of the hosts file in their order, and guards names.
	order sync.Mutex
	names hostNames
}

// hostsCalm is how long the hosts file must be left alone before the agent looks at it.
const hostsCalm = 20 * time.Millisecond

func (a *Agent) openMembership() error {
	path := filepath.Join(a.Root, "etc/hosts")
	m := &membership{
		agent: a, hosts: hosts.New(path), path: path,
		slurmctlds: map[string]wire.Peer{}, aliases: map[string][]netip.Addr{},
		missing: map[string]time.Time{}, names: hostNames{file: a.confFile()},
	}
	var err error
	m.controller, _, _ = net.SplitHostPort(a.Config.Peers) // the client reports what it is not
	m.client, err = peers.NewClient(peers.ClientOptions{
		Address: a.Config.Peers, CA: filepath.Join(a.Config.PeersDir, "ca.crt"), Token: filepath.Join(a.Config.PeersDir, "token"),
		Alone: !a.daemon.registers && !a.daemon.hosts, Changed: m.changed, Away: m.away, Log: a.log,
	})
	a.members = m
	a.ctld.Follow(m.client)
	return err
}

// run follows the controller, and whoever else writes the hosts file.
func (m *membership) run(ctx context.Context) {
	files := watch.New(watch.Options{
		Done: m.agent.over, Calm: watch.For(hostsCalm), Changed: func() { m.wrote(m.hosts.Mend()) },
	})
	if err := files.Add(m.path); err != nil {
		m.agent.log(slog.LevelWarn, "the kernel cannot tell of changes of the hosts file: it is looked at every "+watch.Every.String(), slog.Any("error", err))
		files.Tick(watch.Every)
	}
	go files.Run()
	m.reserve()
	go m.guardAlways(ctx.Done())
	if m.agent.daemon.registers {
		go m.agent.node.FollowKubernetes(ctx)
	}
	m.client.Run(ctx)
}

// reserve has the names of elastic nodes without pods be known. slurmctld 26.05 looks for a name that nobody knows ten
// times, once a second, and answers nobody meanwhile.
func (m *membership) reserve() {
	if m == nil {
		return
	}
	names, known := m.agent.ctld.ElasticNodes()
	if !known {
		return
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == m.controller })
	m.order.Lock()
	defer m.order.Unlock()
	m.wrote(m.hosts.Reserve(names))
}

// changed takes a change of the table.
func (m *membership) changed(c peers.Change) {
	m.order.Lock()
	names, moved := m.take(c, time.Now())
	m.names.take(c)
	m.guard()
	m.wrote(m.hosts.Set(names))
	m.tellForeign()
	m.order.Unlock()
	if c.Whole {
		time.AfterFunc(missingTime, func() { m.dropMissing(time.Now()) })
	}
	if moved {
		m.agent.post(supervisor.ControllerMoved{})
	}
	if c.Self != nil {
		m.setSelf(*c.Self)
	}
	m.agent.ctld.PodsChanged(c)
}

// missingTime is how long a name stays that another replica's whole table lacks. That replica may have begun
// with an older state of Kubernetes, and tells then within seconds of the pod.
const missingTime = time.Minute

// take keeps the slurmctlds, and returns the names that change. moved says that one has another address.
func (m *membership) take(c peers.Change, now time.Time) (names map[string][]netip.Addr, moved bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	names = map[string][]netip.Addr{}
	for _, gone := range c.Gone {
		if c.Whole && !gone.Lost {
			m.missing[gone.Name] = now.Add(missingTime)
			if p, is := m.slurmctlds[gone.Name]; is {
				p.Ending = true // another slurmctld comes before it
				m.slurmctlds[gone.Name] = p
			}
			continue
		}
		names[gone.Name] = nil
		delete(m.missing, gone.Name)
		delete(m.slurmctlds, gone.Name)
	}
	for _, p := range c.Put {
		if p.Name == m.controller || Role(p.Role) != Slurmctld && slices.Contains(controllerHosts(m.agent.Config.Controller), p.Name) {
			continue // a pod of this name would keep the agent from the controller, or from slurmctld
		}
		names[p.Name] = p.Addresses
		delete(m.missing, p.Name)
		delete(m.slurmctlds, p.Name)
		if Role(p.Role) == Slurmctld {
			m.slurmctlds[p.Name] = p
			moved = moved || len(p.Addresses) > 0
		}
	}
	m.realias(names)
	return names, moved
}

// realias adds to names which of SLURMLET_CONTROLLER's change. The caller holds mu.
func (m *membership) realias(names map[string][]netip.Addr) {
	aliases := aliasesOf(controllerHosts(m.agent.Config.Controller), m.slurmctlds)
	for name := range m.aliases {
		if aliases[name] == nil && names[name] == nil {
			names[name] = nil
		}
	}
	maps.Copy(names, aliases)
	m.aliases = aliases
}

// dropMissing takes names out of the hosts file that have been missing long enough.
func (m *membership) dropMissing(now time.Time) {
	m.order.Lock()
	defer m.order.Unlock()
	names := map[string][]netip.Addr{}
	m.mu.Lock()
	for name, until := range m.missing {
		if !now.Before(until) {
			names[name] = nil
			delete(m.missing, name)
			delete(m.slurmctlds, name)
		}
	}
	if len(names) > 0 {
		m.realias(names)
	}
	m.mu.Unlock()
	if len(names) > 0 {
		m.wrote(m.hosts.Set(names))
	}
}

// doubtAfter is how long the controller must be away before the agent asks whether slurmctld is still where
// the table has it, and how often it does. 10,000 agents open 170 connections a second.
const doubtAfter = time.Minute

// away: without a controller that hears of Kubernetes, the last table holds as long as slurmctld takes
// connections there. A slurmctld that has moved is found by DNS, which the hosts file comes before.
func (m *membership) away(since time.Time) {
	m.agent.ctld.ControllerAway(since)
	now := time.Now()
	if now.Sub(since) < doubtAfter || now.Sub(m.doubted) < doubtAfter {
		return
	}
	m.doubted = now
	m.mu.Lock()
	table := maps.Clone(m.slurmctlds)
	m.mu.Unlock()
	port := m.agent.controllerPort()
	for _, p := range table {
		for _, address := range p.Addresses {
			conn, err := net.DialTimeout("tcp", net.JoinHostPort(address.String(), port), reachTimeout)
			if err == nil {
				_ = conn.Close() // nothing was said
				return
			}
		}
	}
	m.order.Lock()
	names := m.forget(slices.Collect(maps.Keys(table)))
	if len(names) > 0 {
		m.wrote(m.hosts.Set(names))
	}
	m.order.Unlock()
	if len(names) == 0 {
		return
	}
	m.agent.log(slog.LevelWarn, "slurmctld takes no connection where slurmlet's controller knew it, and the controller is away: DNS is asked", slog.Any("names", slices.Sorted(maps.Keys(names))))
	m.agent.post(supervisor.ControllerMoved{})
}

// reachTimeout is how long slurmctld may take to accept a connection before DNS is asked.
const reachTimeout = 3 * time.Second

// forget takes slurmctlds out of the table until the controller tells of them again.
func (m *membership) forget(slurmctlds []string) (names map[string][]netip.Addr) {
	m.client.Forget(slurmctlds...)
	m.mu.Lock()
	defer m.mu.Unlock()
	names = map[string][]netip.Addr{}
	for _, name := range slurmctlds {
		delete(m.missing, name)
		delete(m.slurmctlds, name)
		names[name] = nil
	}
	for alias := range m.aliases {
		names[alias] = nil
	}
	m.aliases = map[string][]netip.Addr{}
	return names
}

// find is where the table has a host of SLURMLET_CONTROLLER. Go's own resolver looks at the hosts file
// only every five seconds.
func (m *membership) find(host string) []netip.Addr {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, known := m.slurmctlds[host]; known {
		return p.Addresses
	}
	return m.aliases[host]
}

// controllerHosts are the hosts of SLURMLET_CONTROLLER.
func controllerHosts(controller string) (hosts []string) {
	for one := range strings.SplitSeq(controller, ",") {
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

// aliasesOf leads the names of SLURMLET_CONTROLLER to the pods of slurmctld: by the pod's name, which is
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

// wrote reports what became of the hosts file, once for each fault.
func (m *membership) wrote(err error) {
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	taken := m.hosts.Taken()
	m.mu.Lock()
	newFault, mended, newTaken := fault != "" && fault != m.fault, fault == "" && m.fault != "", !slices.Equal(taken, m.taken)
	m.fault, m.taken = fault, taken
	m.mu.Unlock()
	switch {
	case newFault:
		m.agent.log(slog.LevelWarn, "peers' names are missing in the hosts file; DNS is asked for them", slog.String("error", fault))
	case mended:
		m.agent.log(slog.LevelInfo, "peers' names are in the hosts file")
	}
	if newTaken && len(taken) > 0 {
		m.agent.log(slog.LevelWarn, "other lines of the hosts file have names of peers, with other addresses", slog.Any("names", taken))
	}
}

// status is nil where there is no controller to follow.
func (m *membership) describe() *PeersStatus {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return &PeersStatus{
		ClientStatus: m.client.Status(), Names: m.hosts.Len(), Taken: m.taken, Foreign: m.foreign, HostsFault: m.fault,
		Machine: m.self.Machine, Drain: m.self.Drain, Deadline: m.self.Deadline,
	}
}

func (s *PeersStatus) rows(row func(name, format string, args ...any)) {
	text := "connected"
	if !s.Connected {
		text = "no controller"
	}
	text += " since " + s.Since.Format(time.RFC3339)
	if s.Updated.IsZero() {
		text += ", no table yet"
	} else {
		text += fmt.Sprintf(", a table of %d at %s, %d names in /etc/hosts", s.Peers, s.Updated.Format(time.RFC3339), s.Names)
	}
	row("Peers", "%s", text)
	if !s.Stale.IsZero() {
		row("Fault", "the controller has heard nothing of Kubernetes since %s", s.Stale.Format(time.RFC3339))
	}
	if s.Fault != "" {
		row("Fault", "%s", s.Fault)
	}
	if s.HostsFault != "" {
		row("Fault", "%s", s.HostsFault)
	}
	if len(s.Taken) > 0 {
		row("Note", "other lines of /etc/hosts have names of peers, with other addresses: %s", strings.Join(s.Taken, ", "))
	}
	if len(s.Foreign) > 0 {
		row("Note", "pods have names of slurm.conf's hosts, and DNS is asked for these: %s", strings.Join(s.Foreign, ", "))
	}
	if s.Machine != "" {
		row("Kubernetes node", "%s", s.Machine)
	}
	if s.Drain != "" {
		row("Drain", "%s", s.Drain)
	}
}
