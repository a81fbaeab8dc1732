package podnames

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// confHosts are the names that Slurm's configuration gives to hosts, and which of them pods have that may not.
type confHosts struct {
	// file is the configuration's, and modified and size are those of its last version.
	file     string
	modified time.Time
	size     int64
	// owners are the roles whose pods may have a name; none for a host that is no pod with an agent.
	owners map[string][]role.Role
	// others are the peers of other roles than slurmd.
	others map[string]role.Role
	// forbidden are those of owners that lead nowhere.
	forbidden []string
}

// take notes the roles of the table's peers.
func (h *confHosts) take(c peers.Change) {
	for _, gone := range c.Gone {
		if !c.Whole || gone.Lost { // else the name stays for a while
			delete(h.others, gone.Name)
		}
	}
	if h.others == nil {
		h.others = map[string]role.Role{}
	}
	for _, p := range c.Put {
		delete(h.others, p.Name)
		if p.Role != role.Slurmd {
			h.others[p.Name] = p.Role
		}
	}
}

// mayHave says whether a pod of the role may have a name.
func (h *confHosts) mayHave(name string, of role.Role) bool {
	owners, is := h.owners[name]
	return !is || slices.Contains(owners, of)
}

// foreign are the hosts' names that no peer may have now.
func (h *confHosts) foreign() (names []string) {
	for name := range h.owners {
		of, is := h.others[name]
		if !is {
			of = role.Slurmd
		}
		if !h.mayHave(name, of) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// read looks whether the configuration has changed. One that cannot be read leaves all as it was.
func (h *confHosts) read() {
	info, err := os.Stat(h.file)
	if err != nil || info.ModTime().Equal(h.modified) && info.Size() == h.size {
		return
	}
	owners := map[string][]role.Role{}
	for line := range confLines(h.file) {
		if len(line.Pairs) == 1 {
			hostsOf(line.Pairs[0], owners)
		}
	}
	h.owners, h.modified, h.size = owners, info.ModTime(), info.Size()
}

// confLines are the lines of slurm.conf, with those of included files, or of slurmdbd.conf.
func confLines(file string) func(func(*slurmconf.Line) bool) {
	dir, name := filepath.Split(file)
	if name == "slurm.conf" {
		set, _ := slurmconf.Read(slurmconf.Dir(dir), slurmconf.SlurmConf)
		if conf := set.Conf(slurmconf.SlurmConf); conf != nil {
			return conf.Lines()
		}
		return func(func(*slurmconf.Line) bool) {}
	}
	text, _ := os.ReadFile(file) // one that is gone comes again
	parsed, _ := slurmconf.Parse(name, string(text))
	return slices.Values(parsed.Lines)
}

// hostsOf adds the hosts of a line: SlurmctldHost=ctl(address), AccountingStorageHost=dbd, DbdHost=dbd:6819 and their like.
func hostsOf(p slurmconf.Pair, owners map[string][]role.Role) {
	key := strings.ToLower(p.Key)
	var owner []role.Role
	switch {
	case strings.HasPrefix(key, "slurmctld"), key == "controlmachine", key == "controladdr", strings.HasPrefix(key, "backup"):
		owner = []role.Role{role.Slurmctld}
	case strings.HasPrefix(key, "accountingstorage"), strings.HasPrefix(key, "dbd"):
		owner = []role.Role{role.Slurmdbd}
	case !strings.HasSuffix(key, "host"):
		return
	}
	if !strings.HasSuffix(key, "host") && !strings.HasSuffix(key, "addr") && key != "controlmachine" && key != "backupcontroller" {
		return
	}
	for _, one := range strings.FieldsFunc(p.Value, func(r rune) bool { return strings.ContainsRune(",() ", r) }) {
		if host, _, err := net.SplitHostPort(one); err == nil {
			one = host
		}
		one = strings.ToLower(one)
		owners[one] = append(owners[one], owner...)
	}
}

// guard keeps peers from the names of the configuration's hosts. The caller holds order.
func (n *Names) guard() {
	n.conf.read()
	for _, host := range slurmctldHosts(n.Slurmctld) {
		delete(n.conf.owners, host) // take and realias see to these
	}
	if forbidden := n.conf.foreign(); !slices.Equal(forbidden, n.conf.forbidden) {
		n.conf.forbidden = forbidden
		n.wrote(n.hosts.Forbid(forbidden))
	}
}

// logForeign logs the names that peers lack for it, once for each change. The caller holds order.
func (n *Names) logForeign() {
	foreign := n.hosts.Forbidden()
	n.mu.Lock()
	news := !slices.Equal(foreign, n.foreign)
	n.foreign = foreign
	n.mu.Unlock()
	if news && len(foreign) > 0 {
		n.Log(slog.LevelWarn, "pods have names of slurm.conf's hosts, and DNS is asked for these", slog.Any("names", foreign))
	}
}

// guardAlways has the names looked at after each change of the status, too: slurmd gets its configuration when it starts.
func (n *Names) guardAlways(done <-chan struct{}) {
	for {
		published := n.Published()
		n.order.Lock()
		n.guard()
		n.logForeign()
		n.order.Unlock()
		select {
		case <-done:
			return
		case <-published:
		}
	}
}
