package sack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// sackd, and slurmd from some version after 24.11 on, serve their port and their socket by the same 150 places. Users reach
// the port directly, and the agent cannot end their connections (that takes CAP_NET_ADMIN). A sackd with a configuration of
// its own has no port, so it gives credentials until the crowd is over.

const (
	// crowdedFrom is how many connections the daemon's port has at least when it is crowded.
	crowdedFrom = 100
	// turnover is for how long a crowded slurmd may accept nobody: it ends silent connections after MessageTimeout
	// (slurm.conf(5)), 10 s, and a slurmd that hangs does not.
	turnover = 30 * time.Second
	// calmEvery is how often the agent looks whether the crowd is over, calmFor how many times in a row it must be.
	calmEvery, calmFor = 5 * time.Second, 3
	// sackdLimit is how long a sackd may take until it answers.
	sackdLimit = 20 * time.Second
)

// accepted are the connections that the daemon had accepted when its port was last looked at, by their inodes.
type accepted struct {
	lock   sync.Mutex
	inodes map[string]bool
	// since is the time of the last change of inodes.
	since time.Time
}

// portTable is what the kernel tells of the connections to a port (proc_net_tcp.rst).
type portTable struct {
	// connections have been made, accepted ones are named by their inodes. holders counts those of this pod by uid.
	connections int
	accepted    map[string]bool
	holders     map[string]int
}

func readPortTable(text string, port uint16, into *portTable) {
	const established = "01"
	suffix := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != established {
			continue
		}
		if strings.HasSuffix(f[1], suffix) {
			into.connections++
			if f[9] != "0" {
				into.accepted[f[9]] = true
			}
		}
		if strings.HasSuffix(f[2], suffix) {
			into.holders[f[7]]++
		}
	}
}

func (k *Kiosk) lookAtPort() portTable {
	t := portTable{accepted: map[string]bool{}, holders: map[string]int{}}
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(name) // without IPv6 there is no tcp6
		readPortTable(string(text), daemonPort(k.ConfDir), &t)
	}
	return t
}

// daemonPort is where slurmd and sackd listen (SlurmdPort in slurm.conf(5)).
func daemonPort(confDir string) uint16 {
	const usual = 6818
	conf, _ := slurmconf.Read(slurmconf.Dir(confDir), slurmconf.SlurmConf)
	if conf.Conf(slurmconf.SlurmConf) == nil {
		return usual
	}
	value, _ := conf.Conf(slurmconf.SlurmConf).Value("SlurmdPort")
	port, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return usual
	}
	return uint16(port)
}

// String names the uids with the most connections.
func (t portTable) String() string {
	uids := slices.SortedFunc(maps.Keys(t.holders),
		func(a, b string) int { return cmp.Or(cmp.Compare(t.holders[b], t.holders[a]), cmp.Compare(a, b)) })
	words := []string{fmt.Sprintf("%d connections", t.connections)}
	for _, uid := range uids[:min(len(uids), 10)] {
		words = append(words, fmt.Sprintf("%d of uid %s", t.holders[uid], uid))
	}
	return strings.Join(words, ", ")
}

// Crowded says that so many connections to the daemon's port wait that those to its socket do, too. A daemon that hangs
// accepts nobody.
func (k *Kiosk) Crowded() bool {
	t := k.lookAtPort()
	if t.connections < crowdedFrom {
		return false
	}
	a := &k.accepted
	a.lock.Lock()
	defer a.lock.Unlock()
	if !maps.Equal(a.inodes, t.accepted) {
		a.inodes, a.since = t.accepted, time.Now()
	}
	return time.Since(a.since) < turnover
}

// relieve has a sackd give credentials as long as the daemon's port is crowded. The door calls it when a request waits for
// longer than a second, once at a time.
func (k *Kiosk) relieve() {
	t := k.lookAtPort()
	if t.connections < crowdedFrom {
		return
	}
	port := t.String()
	k.port.Store(&port)
	defer k.port.Store(nil)
	p, back, err := k.startSubstitute()
	if err != nil {
		k.Log(slog.LevelError, "the daemon's port is crowded, and users wait for credentials",
			slog.String("port", port), slog.Any("error", err))
		<-time.After(calmEvery)
		return
	}
	defer back.Close()
	defer func() { _ = p.Signal(unix.SIGKILL) }() // it may be over
	k.Log(slog.LevelWarn, "the daemon's port is crowded: a sackd gives credentials in its place", slog.String("port", port))
	if !k.lend(back) {
		return
	}
	defer k.giveBack(back)
	for calm := 0; calm < calmFor; calm++ {
		select {
		case <-k.Alive.Done():
			return
		case <-p.Done():
			return
		case <-time.After(calmEvery):
		}
		if t = k.lookAtPort(); t.connections >= crowdedFrom/2 {
			port := t.String()
			k.port.Store(&port)
			calm = -1
		}
	}
	k.Log(slog.LevelInfo, "the daemon's port is not crowded any more")
}

// startSubstitute starts a sackd for the time of a crowd, and waits until it answers.
func (k *Kiosk) startSubstitute() (*process.Process, *Back, error) {
	command, err := k.sackdCommand()
	if err != nil {
		return nil, nil, err
	}
	p, back, err := k.start(command)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(k.Alive, sackdLimit)
	defer cancel()
	if err := answers(ctx, p, back.ProcPath()); err != nil {
		back.Close()
		return nil, nil, errors.Join(err, end(p))
	}
	return p, back, nil
}

// end ends a process that may be over.
func end(p *process.Process) error {
	if err := p.Signal(unix.SIGKILL); !errors.Is(err, process.ErrExited) {
		return err
	}
	return nil
}

// lend lets users in to a sackd. It does not where the daemon is over, or another sackd speaks for it.
func (k *Kiosk) lend(back *Back) bool {
	k.lock.Lock()
	defer k.lock.Unlock()
	if !k.opened || k.door.At() != k.main {
		return false
	}
	k.substituted = true
	k.open(back)
	return true
}

// giveBack lets users in to the daemon again, or to nobody where that is over.
func (k *Kiosk) giveBack(back *Back) {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.substituted = false
	switch {
	case k.door.At() != back:
	case k.main == nil || !k.opened:
		k.door.Shut(back)
	default:
		k.open(k.main)
	}
}
