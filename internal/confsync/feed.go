// Package confsync keeps the cluster's configuration the same on every node: the Feed of
// slurmctld's agent announces it, and the Followers of the other agents compare their daemons'
// copies with it.
package confsync

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/publichttp"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// Feed gives the agents of slurmds and sackds the hashes of slurmctld's configuration, once
// slurmctld is sure to keep it, so that a slurmd that missed it can fetch it. Everybody can
// ask, so it gives hashes only, of what every node has anyway.
//
// Thousands of nodes wait here for the next change. Whoever announces waits for none of
// them: the port's goroutine owns now and all connections.
type Feed struct {
	port *publichttp.Server
	now  manifest
}

// Serve gives the feed its port, before anything else is asked of it.
func (f *Feed) Serve(port *publichttp.Server) { f.port = port }

const (
	// LongestWait is after how long a connection is closed: its other end may be
	// gone. Whoever waits asks again before.
	LongestWait = 15 * time.Minute
	askAgain    = 10 * time.Minute
	// MostUnknown is how many may wait before the cluster's size is known.
	MostUnknown = 1 << 15
)

// ServeHTTP answers at once when the hash in the query is another than that of the announced
// configuration. Otherwise the answer is the next announcement.
func (f *Feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	unlike := r.URL.Query().Get("unlike")
	if f.now.hash == "" || f.now.hash == unlike {
		publichttp.Wait(w, tagOf(r.RemoteAddr, unlike))
		return
	}
	fmt.Fprint(w, f.now)
}

// Hold lets everybody wait: slurmctld may yet refuse what it has now.
func (f *Feed) Hold() {
	f.port.Do(func() { f.now = manifest{} })
}

// Announce answers those that wait for another configuration than the one in dir.
func (f *Feed) Announce(dir string) {
	files, nodes := served(dir)
	f.announce(newManifest(files), nodes)
}

// announce: of nodes there may be so many.
func (f *Feed) announce(m manifest, nodes int) {
	f.port.Do(func() {
		f.now = m
		f.port.SetWaiting(room(nodes))
		f.port.Answer(func(tag string) bool { _, unlike := parseTag(tag); return unlike != m.hash }, "text/plain; charset=utf-8", m.String())
	})
}

// tagOf says who waits: from which address, and what it has already.
func tagOf(from, unlike string) string {
	if at, err := netip.ParseAddrPort(from); err == nil {
		from = at.Addr().Unmap().String()
	}
	return from + " " + unlike
}

func parseTag(tag string) (host, unlike string) {
	host, unlike, _ = strings.Cut(tag, " ")
	return host, unlike
}

// mostNodes is how many nodes there may be by slurm.conf.
func mostNodes(conf *slurmconf.Conf) int {
	if conf == nil {
		return 0
	}
	value, _ := conf.Value("MaxNodeCount")
	dynamic, _ := strconv.Atoi(value) // what is no number is told by the check
	return max(dynamic, conf.NodeCount())
}

// room is for how many connections that wait. The nodes have half of it and more, so that,
// even if all of them come from one address, another one has more when there is no room left.
func room(nodes int) int { return 2*nodes + 1<<10 }
