// Package confsync keeps the cluster's configuration the same on every node: the Feed of
// slurmctld's agent announces it, and the Followers of the other agents compare their daemons'
// copies with it.
package confsync

import (
	"crypto/rand"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/proof"
	"github.com/slurmlet/slurmlet/internal/link/publichttp"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// Feed gives the agents of slurmds and sackds the hashes of slurmctld's configuration, once
// slurmctld is sure to keep it, so that a slurmd that missed it can fetch it. Everybody can
// ask, so it gives hashes only, of what every node has anyway.
//
// Thousands of nodes wait here for the next change. Whoever announces waits for none of
// them: the port's goroutine owns now, the verifier and all connections.
//
// An agent that proves that it has the cluster's key gets signed answers, and strangers never
// take its place.
type Feed struct {
	// Verifier judges proofs.
	Verifier *proof.Verifier
	// Log, if there is one, says what an administrator must change.
	Log  func(level slog.Level, text string, attrs ...slog.Attr)
	port *publichttp.Server
	now  manifest
	// start identifies slurmctld's last start.
	start string
	// warned: there are too few file descriptors.
	warned bool
}

// Serve gives the feed its port, before it has anything to announce.
func (f *Feed) Serve(port *publichttp.Server) {
	f.port = port
	port.Do(func() { f.start = rand.Text() })
}

// The parameters of the query.
const (
	// nodeParameter is the name of the node whose agent asks.
	nodeParameter = "node"
	// hashParameter is the hash of the configuration that the asker has: the answer is unlike it.
	hashParameter = "unlike"
	// startParameter identifies the start of slurmctld that the asker has heard of last, and in the answer's type the
	// present one. A connection does not always show that slurmctld has been started anew: what the old one has said
	// may come after the new one is there.
	startParameter = "life"
	// withoutParameter has the controllers by which the asker's container can hold no job, separated by commas.
	withoutParameter = "without"
)

// waiter is one that asks.
type waiter struct {
	// host is its address. hash is that of the configuration that it has, and start identifies the slurmctld from whose
	// agent it has that.
	host, hash, start string
	// node and without are the name of one that has proved itself, and the controllers that its container lacks.
	node, without string
	// signer signs the answer, nil for a stranger.
	signer *proof.Signer
}

func (w waiter) answer(to http.ResponseWriter, kind, text string) {
	if w.signer != nil {
		w.signer.Write(to, kind, text)
		return
	}
	to.Header().Set("Content-Type", kind)
	_, _ = to.Write([]byte(text)) // to memory
}

const (
	// LongestWait is after how long a connection is closed: its other end may be
	// gone. Whoever waits asks again before.
	LongestWait = 15 * time.Minute
	askAgain    = 10 * time.Minute
	// MostUnknown is how many may wait before the cluster's size is known.
	MostUnknown = 1 << 15
)

// ServeHTTP answers at once when the hash in the query is another than that of the announced
// configuration, or the start another than this slurmctld's. Otherwise the answer is the next
// announcement.
func (f *Feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	one, name := waiter{host: hostOf(r.RemoteAddr), hash: query.Get(hashParameter), start: query.Get(startParameter)}, ""
	if r.Header.Get("Authorization") != "" {
		var err error
		if one.signer, err = f.Verifier.Verify(r); err != nil {
			http.Error(w, "the request is refused: "+err.Error(), http.StatusUnauthorized)
			return
		}
		if name = query.Get(nodeParameter); name == "" {
			name = "at " + one.host // which is no node's name
		}
		one.node, one.without = name, query.Get(withoutParameter)
	}
	if f.now.hash == "" || f.isUpToDate(one) {
		publichttp.WaitAs(w, name, one)
		return
	}
	one.answer(w, f.announcementType(publichttp.ServerOf(w).CountKnown()), f.now.String())
}

// isUpToDate says whether an agent has what is announced, from the slurmctld that runs now.
func (f *Feed) isUpToDate(w waiter) bool {
	return w.hash == f.now.hash && (w.start == "" || w.start == f.start)
}

// Renew makes known that slurmctld has been started anew under the same agent.
func (f *Feed) Renew() {
	f.port.Do(func() {
		f.start = rand.Text()
		if f.now.hash != "" {
			f.answer(f.announcementType(f.port.CountKnown()), f.now.String(), func(w waiter) bool { return !f.isUpToDate(w) })
		}
	})
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

// announce makes room for the agents of so many nodes, too.
func (f *Feed) announce(m manifest, nodes int) {
	f.port.Do(func() {
		f.now = m
		f.warn(nodes, f.port.SetWaiting(room(nodes)))
		text, kind := m.String(), f.announcementType(f.port.CountKnown())
		f.answer(kind, text, func(w waiter) bool { return !f.isUpToDate(w) })
	})
}

// connectionsOfNode is how many connections of a node's agent wait at the same time: for the
// configuration's news, and for a change of its record.
const connectionsOfNode = 2

// warn logs once that the file descriptors are too few for all nodes. The agents that find no room hang on: each
// ends another one's connection, comes back, and takes slurmctld for restarted.
func (f *Feed) warn(nodes, most int) {
	if most >= connectionsOfNode*nodes || f.warned || f.Log == nil {
		return
	}
	f.warned = true
	f.Log(slog.LevelWarn,
		"the limit of open files is too low for MaxNodeCount: agents beyond it lose their connections to this one again and again",
		slog.Int("nodes", most/connectionsOfNode), slog.Int("max_node_count", nodes),
		slog.Int("want_open_files", filesPerConnection*connectionsOfNode*nodes))
}

// filesPerConnection is how many file descriptors the port wants for each connection that waits
// (publichttp).
const filesPerConnection = 2

// answer answers those that are chosen. The port's goroutine calls it.
func (f *Feed) answer(kind, text string, chosen func(waiter) bool) {
	f.port.Answer(func(tag any, w http.ResponseWriter) bool {
		one, ours := tag.(waiter)
		if !ours || !chosen(one) {
			return false
		}
		one.answer(w, kind, text)
		return true
	})
}

func hostOf(address string) string {
	if at, err := netip.ParseAddrPort(address); err == nil {
		return at.Addr().Unmap().String()
	}
	return address
}

// nodesParameter of the answer's type is how many agents have proved themselves and wait: so many
// will ask at once when this one is gone.
const nodesParameter = "nodes"

func (f *Feed) announcementType(nodes int) string {
	return mime.FormatMediaType("text/plain",
		map[string]string{"charset": "utf-8", nodesParameter: strconv.Itoa(nodes), startParameter: f.start})
}

// mostNodes is how many nodes there may be by slurm.conf.
func mostNodes(conf *slurmconf.Conf) int {
	if conf == nil {
		return 0
	}
	value, _ := conf.Value("MaxNodeCount")
	dynamic, _ := strconv.Atoi(value) // what is no number is a finding of the check
	return max(dynamic, conf.NodeCount())
}

// room is for how many connections that wait. The nodes have half of it and more, so that,
// even if all of them come from one address, another one has more when there is no room left.
func room(nodes int) int { return connectionsOfNode*nodes + 1<<10 }
