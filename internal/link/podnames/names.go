// Package podnames keeps the names of the cluster's pods in /etc/hosts, as slurmlet's controller sends them. Without the
// controller the last names stay.
package podnames

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/pod/hosts"
	"github.com/slurmlet/slurmlet/internal/pod/watch"
)

// Options are the surroundings of Names.
type Options struct {
	// Root is where the machine's file system begins.
	Root string
	// Address is host:port of slurmlet's controller. Dir has its CA and the pod's token.
	Address, Dir string
	// Alone says that no peer but slurmctld interests this pod.
	Alone bool
	// Slurmctld is SLURMLET_SLURMCTLD: host:port of slurmctld, several separated by commas.
	Slurmctld string
	// ConfFile is the configuration that this pod's daemon has, which gives hosts names.
	ConfFile string
	// ElasticNodes returns the nodes that have names without pods. known is false before they are known.
	ElasticNodes func() (names []string, known bool)
	// Published returns what is closed when the agent's status may have changed.
	Published func() <-chan struct{}
	// Moved is called when slurmctld has another address, and TakeSelf with what Kubernetes knows of this pod, and knew
	// before. Changed gets each change of the table after that.
	Moved    func()
	TakeSelf func(now, before wire.Self)
	Changed  func(peers.Change)
	Log      func(level slog.Level, text string, attrs ...slog.Attr)
}

// Names are those of the cluster's pods. Nil ones are those of a pod that follows no controller.
type Names struct {
	Options
	client *peers.Client
	hosts  *hosts.File
	// controller is the host of Address.
	controller string

	mu sync.Mutex
	// slurmctlds are those of the last table, and aliases the names of Slurmctld that lead to them.
	slurmctlds map[string]wire.Peer
	aliases    map[string][]netip.Addr
	fault      string
	taken      []string
	self       wire.Self
	// doubted is when slurmctld's address was tried last, without a controller that could know.
	doubted time.Time
	// missing are peers that a whole table lacked, and when their names go.
	missing map[string]time.Time
	// foreign are peers' names that slurm.conf gives to other hosts.
	foreign []string
	// order keeps changes of the hosts file in their order, and guards conf.
	order sync.Mutex
	conf  confHosts
}

// hostsCalm is how long the hosts file must be left alone before the agent looks at it.
const hostsCalm = 20 * time.Millisecond

// Open reads what the controller is spoken to with. It asks nobody.
func Open(o Options) (*Names, error) {
	n := &Names{
		Options: o, hosts: hosts.New(o.hostsFile()),
		slurmctlds: map[string]wire.Peer{}, aliases: map[string][]netip.Addr{},
		missing: map[string]time.Time{}, conf: confHosts{file: o.ConfFile},
	}
	var err error
	n.controller, _, _ = net.SplitHostPort(o.Address) // the client reports what it is not
	n.client, err = peers.NewClient(peers.ClientOptions{
		Address: o.Address, CA: filepath.Join(o.Dir, "ca.crt"), Token: filepath.Join(o.Dir, "token"),
		Alone: o.Alone, Changed: n.changed, Away: n.away, Log: o.Log,
	})
	return n, err
}

func (o Options) hostsFile() string { return filepath.Join(o.Root, "etc/hosts") }

// Client is the stream from the controller.
func (n *Names) Client() *peers.Client { return n.client }

// Run follows the controller, and whoever else writes the hosts file, until ctx is over.
func (n *Names) Run(ctx context.Context) {
	files := watch.New(watch.Options{
		Done: ctx.Done(), Calm: watch.For(hostsCalm), Changed: func() { n.wrote(n.hosts.Mend()) },
	})
	if err := files.Add(n.hostsFile()); err != nil {
		n.Log(slog.LevelWarn, "the kernel cannot report changes of the hosts file: it is looked at every "+
			watch.Every.String(), slog.Any("error", err))
		files.Tick(watch.Every)
	}
	go files.Run()
	n.Reserve()
	go n.guardAlways(ctx.Done())
	n.client.Run(ctx)
}

// Reserve has the names of elastic nodes without pods be known. slurmctld 26.05 looks for a name that nobody knows ten
// times, once a second, and answers nobody meanwhile.
func (n *Names) Reserve() {
	if n == nil {
		return
	}
	names, known := n.ElasticNodes()
	if !known {
		return
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == n.controller })
	n.order.Lock()
	defer n.order.Unlock()
	n.wrote(n.hosts.Reserve(names))
}

// changed takes a change of the table.
func (n *Names) changed(c peers.Change) {
	n.order.Lock()
	names, moved := n.take(c, time.Now())
	n.conf.take(c)
	n.guard()
	n.wrote(n.hosts.Set(names))
	n.logForeign()
	n.order.Unlock()
	if c.Whole {
		time.AfterFunc(missingTime, func() { n.dropMissing(time.Now()) })
	}
	if moved {
		n.Moved()
	}
	if c.Self != nil {
		n.mu.Lock()
		before := n.self
		n.self = *c.Self
		n.mu.Unlock()
		n.TakeSelf(*c.Self, before)
	}
	n.Changed(c)
}

// wrote reports what became of the hosts file, once for each fault.
func (n *Names) wrote(err error) {
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	taken := n.hosts.Taken()
	n.mu.Lock()
	newFault, mended, newTaken := fault != "" && fault != n.fault, fault == "" && n.fault != "", !slices.Equal(taken, n.taken)
	n.fault, n.taken = fault, taken
	n.mu.Unlock()
	switch {
	case newFault:
		n.Log(slog.LevelWarn, "peers' names are missing in the hosts file; DNS is asked for them", slog.String("error", fault))
	case mended:
		n.Log(slog.LevelInfo, "peers' names are in the hosts file")
	}
	if newTaken && len(taken) > 0 {
		n.Log(slog.LevelWarn, "other lines of the hosts file have names of peers, with other addresses", slog.Any("names", taken))
	}
}
