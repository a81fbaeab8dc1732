package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/pod/sack"
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
)

// crowd is who has connections to the daemon's port.
type crowd struct {
	lock sync.Mutex
	// accepted are the connections that the daemon had accepted when it was last looked, and since is when these changed.
	accepted map[string]bool
	since    time.Time
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

func (a *Agent) lookAtPort() portTable {
	t := portTable{accepted: map[string]bool{}, holders: map[string]int{}}
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(name) // without IPv6 there is no tcp6
		readPortTable(string(text), a.daemonPort(), &t)
	}
	return t
}

// daemonPort is where slurmd and sackd listen (SlurmdPort in slurm.conf(5)).
func (a *Agent) daemonPort() uint16 {
	const usual = 6818
	conf, _ := slurmconf.Read(slurmconf.Dir(a.daemon.confCopy(a.Config)), slurmconf.SlurmConf)
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
	uids := slices.SortedFunc(maps.Keys(t.holders), func(a, b string) int { return cmp.Or(cmp.Compare(t.holders[b], t.holders[a]), cmp.Compare(a, b)) })
	said := []string{fmt.Sprintf("%d connections", t.connections)}
	for _, uid := range uids[:min(len(uids), 10)] {
		said = append(said, fmt.Sprintf("%d of uid %s", t.holders[uid], uid))
	}
	return strings.Join(said, ", ")
}

// crowded: so many connections to the daemon's port wait that those to its socket do, too. One that hangs accepts nobody.
func (a *Agent) crowded() bool {
	t := a.lookAtPort()
	if t.connections < crowdedFrom {
		return false
	}
	c := &a.crowd
	c.lock.Lock()
	defer c.lock.Unlock()
	if !maps.Equal(c.accepted, t.accepted) {
		c.accepted, c.since = t.accepted, time.Now()
	}
	return time.Since(c.since) < turnover
}

// relieve has a sackd give credentials as long as the daemon's port is crowded. The door calls it when a request waits for
// longer than a second, once at a time.
func (a *Agent) relieve() {
	t := a.lookAtPort()
	if t.connections < crowdedFrom {
		return
	}
	said := t.String()
	a.door.crowd.Store(&said)
	defer a.door.crowd.Store(nil)
	p, back, err := a.startKiosk()
	if err != nil {
		a.log(slog.LevelError, "the daemon's port is crowded, and users wait for credentials", slog.String("port", said), slog.Any("error", err))
		<-time.After(calmEvery)
		return
	}
	defer back.Close()
	defer func() { _ = p.Signal(unix.SIGKILL) }() // it may be over
	a.log(slog.LevelWarn, "the daemon's port is crowded: a sackd gives credentials in its place", slog.String("port", said))
	if !a.door.lend(a, back) {
		return
	}
	defer a.door.giveBack(a, back)
	for calm := 0; calm < calmFor; calm++ {
		select {
		case <-a.over:
			return
		case <-p.Done():
			return
		case <-time.After(calmEvery):
		}
		if t = a.lookAtPort(); t.connections >= crowdedFrom/2 {
			said := t.String()
			a.door.crowd.Store(&said)
			calm = -1
		}
	}
	a.log(slog.LevelInfo, "the daemon's port is not crowded any more")
}

// kioskLimit is how long a sackd may take until it answers.
const kioskLimit = 20 * time.Second

// startKiosk starts a sackd that reads the copy of the configuration that the daemon has fetched.
func (a *Agent) startKiosk() (*process.Process, *sack.Back, error) {
	path, err := process.Find("sackd")
	if err != nil {
		return nil, nil, err
	}
	command := process.Command{
		Path: path, Args: []string{"-D", "-f", filepath.Join(a.daemon.confCopy(a.Config), "slurm.conf")}, Dir: "/", Credential: a.daemon.credential,
		Env: append(a.daemon.scontrolEnv(), a.keyEnv()...), Stdout: a.output.File(), Stderr: a.output.File(),
	}
	back, err := a.door.behind(&command)
	if err != nil {
		return nil, nil, err
	}
	p, err := a.Table.Start(command)
	if err != nil {
		back.Close()
		return nil, nil, err
	}
	_ = back.Listener.Close() // sackd has it
	ctx, cancel := context.WithTimeout(a.alive, kioskLimit)
	defer cancel()
	for !speaks(back.Path()) {
		select {
		case <-p.Done():
			back.Close()
			return nil, nil, fmt.Errorf("sackd: %s", p.Status().String())
		case <-ctx.Done():
			back.Close()
			return nil, nil, errors.Join(errors.New("sackd does not answer"), p.Signal(unix.SIGKILL))
		case <-time.After(10 * time.Millisecond):
		}
	}
	return p, back, nil
}

// lend lets users in to a sackd. It does not where the daemon is over, or another sackd speaks for it.
func (d *door) lend(a *Agent, back *sack.Back) bool {
	d.lock.Lock()
	defer d.lock.Unlock()
	if !d.opened || d.At() != d.main {
		return false
	}
	d.kiosk = true
	if err := d.Open(back); err != nil {
		a.log(slog.LevelError, "users get no credentials", slog.Any("error", err))
	}
	return true
}

// giveBack lets users in to the daemon again, or to nobody where that is over.
func (d *door) giveBack(a *Agent, back *sack.Back) {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.kiosk = false
	switch {
	case d.At() != back:
	case d.main == nil || !d.opened:
		d.Shut(back)
	default:
		if err := d.Open(d.main); err != nil {
			a.log(slog.LevelError, "users get no credentials", slog.Any("error", err))
		}
	}
}
