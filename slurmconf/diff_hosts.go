package slurmconf

import (
	"slices"

	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// maxHosts is how many hosts are compared one by one; Slurm takes 65,536 nodes. Of
// more, records are compared as they are written.
const maxHosts = 4 * hostlist.MaxRange

// compareHosts compares records whose names are hostlists, host by host: n[1-2] and n1,n2
// are the same.
func (d *comparison) compareHosts(key string) {
	before, ok1 := hostsOf(d.before.Records(key))
	after, ok2 := hostsOf(d.after.Records(key))
	if !ok1 || !ok2 {
		d.compareRecords(key)
		return
	}
	moves := map[move]*moved{}
	var order []*moved
	note := func(host string, m move) {
		if moves[m] == nil {
			moves[m] = &moved{move: m}
			order = append(order, moves[m])
		}
		moves[m].hosts = append(moves[m].hosts, host)
	}
	for _, host := range after.hosts {
		note(host, move{before.byHost[host].Record, after.byHost[host].Record})
	}
	for _, host := range before.hosts {
		if _, ok := after.byHost[host]; !ok {
			note(host, move{before.byHost[host].Record, Record{}})
		}
	}
	for _, m := range order {
		d.compareMoved(m, before, after)
	}
}

// hosts is which record each host has, in order.
type hosts struct {
	hosts  []string
	byHost map[string]hostRecord
}

// hostRecord is a record and which of its hosts a host is.
type hostRecord struct {
	Record
	nth int
}

// hostsOf expands the names of records. Of a host that is named twice the last
// record counts.
func hostsOf(records []Record) (hosts, bool) {
	h := hosts{byHost: map[string]hostRecord{}}
	for _, r := range records {
		if n, err := hostlist.Count(r.Name()); err != nil || n+uint64(len(h.hosts)) > maxHosts {
			return h, false
		}
		list, err := hostlist.Parse(r.Name())
		if err != nil {
			return h, false
		}
		nth := 0
		for host := range list.All() {
			if _, twice := h.byHost[host]; !twice {
				h.hosts = append(h.hosts, host)
			}
			h.byHost[host] = hostRecord{r, nth}
			nth++
		}
	}
	return h, true
}

// move is from which record hosts come and to which they go; that of a host that
// is new or gone has no Line.
type move struct{ oldRecord, newRecord Record }

type moved struct {
	move
	hosts []string
}

// compareMoved adds what changes for hosts that have moved from one record to another.
func (d *comparison) compareMoved(m *moved, before, after hosts) {
	some := m.newRecord
	if some.Line == nil {
		some = m.oldRecord
	}
	title := func(hosts []string) string {
		return some.Pairs[0].Key + "=" + hostlist.Of(slices.Values(hosts)).Sorted().String()
	}
	switch {
	case m.oldRecord.Line == nil:
		d.add(title(m.hosts), "", nil, m.newRecord.wholeText())
	case m.newRecord.Line == nil:
		d.add(title(m.hosts), "", m.oldRecord.wholeText(), nil)
	default:
		d.compareRecord(title(m.hosts), m.oldRecord, m.newRecord, perHost)
		for _, key := range perHost {
			d.comparePerHost(key, m, title, before, after)
		}
	}
}

// perHost are keys of NodeName whose values are hostlists, too: the nth of them
// belongs to the nth node.
var perHost = []string{"nodehostname", "nodeaddr", "bcastaddr", "port"}

// comparePerHost compares such a key.
func (d *comparison) comparePerHost(key string, m *moved, title func([]string) string, before, after hosts) {
	old, now := m.oldRecord.textOf(key), m.newRecord.textOf(key)
	if old == nil && now == nil {
		return
	}
	was, is := nths(old), nths(now)
	var differ []string
	for _, host := range m.hosts {
		if was(before.byHost[host].nth) != is(after.byHost[host].nth) {
			differ = append(differ, host)
		}
	}
	if len(differ) > 0 {
		pair, ok := m.newRecord.Get(key)
		if !ok {
			pair, _ = m.oldRecord.Get(key)
		}
		d.add(title(differ), pair.Key, old, now)
	}
}

// nths is which value each host has. One value is that of all.
func nths(t *ValueAt) func(int) string {
	if t == nil {
		return func(int) string { return "" }
	}
	list, err := hostlist.Parse(t.Text)
	return func(n int) string {
		if one, ok := list.Nth(n); ok && err == nil {
			return one
		}
		return t.Text
	}
}
