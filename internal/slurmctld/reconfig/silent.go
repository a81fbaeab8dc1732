package reconfig

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/slurmconf"
)

const (
	// silentLimit is for how long connections are watched on which nobody says anything. slurmctld serves nobody meanwhile.
	silentLimit = 10 * time.Second
	// idleCPU is how long a slurmctld computes at most meanwhile that only waits: who has asked a busy one is silent, too.
	idleCPU = 500 * time.Millisecond
	// mostPeers are named.
	mostPeers = 10
)

// unanswered looks for what a slurmctld waits for that does not answer a reconfigure. It closes its port, and waits until
// each connection that it has accepted is over. From 25.05 on it ends them after conmgr_quiesce_timeout (slurm.conf(5),
// SlurmctldParameters), before that never: one connection on which nobody says anything, of any user or of a machine that
// died, stops the cluster. What slurmctld knows it has saved by then, at the latest 5 s after each change.
func (r *Reloader) unanswered(ctx context.Context, silence error) error {
	peers := r.silentPeers()
	if len(peers) == 0 {
		return silence
	}
	r.Log(slog.LevelWarn, "slurmctld serves nobody: before it reconfigures, it waits for connections on which nobody says anything",
		slog.Int("connections", len(peers)), slog.Any("from", named(peers)))
	if version := r.slurmBuild(ctx, false).version; version == "" || version >= "25.05" {
		return silence
	}
	slurmctld := filepath.Base(r.Daemon.Path)
	before := computed(slurmctld)
	for until := time.Now().Add(silentLimit); time.Now().Before(until) && ctx.Err() == nil; {
		pause(ctx, time.Second)
		now := r.silentPeers()
		peers = slices.DeleteFunc(peers, func(p netip.AddrPort) bool { return !slices.Contains(now, p) })
		if len(peers) == 0 {
			return silence
		}
	}
	if computed(slurmctld)-before > idleCPU {
		return silence
	}
	return conf.HeldUp{Why: fmt.Sprintf(
		"before it reconfigures, it waits for %d connections on which nobody says anything, from %s", len(peers),
		strings.Join(named(peers), ", "))}
}

func named(peers []netip.AddrPort) (names []string) {
	for _, peer := range peers[:min(len(peers), mostPeers)] {
		names = append(names, peer.String())
	}
	return names
}

// silentPeers are the far ends of connections to slurmctld on which nothing is on its way.
func (r *Reloader) silentPeers() (peers []netip.AddrPort) {
	first, last := slurmctldPorts(r.liveSet.Current())
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table) // without IPv6 there is no tcp6
		peers = append(peers, silentPeers(string(text), first, last)...)
	}
	return peers
}

// computed is the processor time of all processes of a name (proc_pid_stat(5), in hundredths of a second).
func computed(name string) (sum time.Duration) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is a good one
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, is := strings.Cut(string(stat), "("+name+") ")
		if f := strings.Fields(rest); is && len(f) > 12 {
			user, _ := strconv.ParseInt(f[11], 10, 64) // the kernel wrote it
			system, _ := strconv.ParseInt(f[12], 10, 64)
			sum += time.Duration(user+system) * time.Second / 100
		}
	}
	return sum
}

// slurmctldPorts are the first and the last port of SlurmctldPort.
func slurmctldPorts(dir string) (first, last uint16) {
	value := slurmctldPort
	if conf, _ := slurmconf.Read(slurmconf.Dir(dir), slurmconf.SlurmConf); conf.Conf(slurmconf.SlurmConf) != nil {
		if set, _ := conf.Conf(slurmconf.SlurmConf).Value("SlurmctldPort"); set != "" {
			value = set
		}
	}
	from, to, isRange := strings.Cut(value, "-")
	if !isRange {
		to = from
	}
	a, _ := strconv.ParseUint(from, 10, 16) // slurmctld runs with it
	b, _ := strconv.ParseUint(to, 10, 16)
	return uint16(a), uint16(b)
}

// slurmctldPort is Slurm's default.
const slurmctldPort = "6817"

// silentPeers are the far ends of the established connections to some ports in a table of the kernel's (proc_net_tcp.rst),
// which somebody has accepted, and on which no byte waits to be sent or read.
func silentPeers(table string, first, last uint16) (peers []netip.AddrPort) {
	const established, nothing = "01", "00000000:00000000"
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != established || f[4] != nothing || f[9] == "0" {
			continue
		}
		local, ok := endpoint(f[1])
		if !ok || local.Port() < first || local.Port() > last {
			continue
		}
		if peer, ok := endpoint(f[2]); ok {
			peers = append(peers, peer)
		}
	}
	return peers
}

// endpoint reads 0100007F:1AA1: an address in words of the machine's byte order, and a port.
func endpoint(text string) (netip.AddrPort, bool) {
	words, port, _ := strings.Cut(text, ":")
	bytes, err1 := hex.DecodeString(words)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if err1 != nil || err2 != nil {
		return netip.AddrPort{}, false
	}
	for at := 0; at+4 <= len(bytes); at += 4 {
		binary.NativeEndian.PutUint32(bytes[at:], binary.BigEndian.Uint32(bytes[at:]))
	}
	address, ok := netip.AddrFromSlice(bytes)
	return netip.AddrPortFrom(address.Unmap(), uint16(number)), ok
}
