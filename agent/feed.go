package agent

import (
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/publichttp"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// feed tells the agents of slurmds which configuration slurmctld has, once it
// is sure to keep it, so that a slurmd that missed it can fetch it. Everybody can
// ask, so it tells hashes only, of what every node has anyway.
//
// Thousands of nodes wait here for the next change. Whoever announces waits for none of
// them: it tells the port, whose goroutine owns now and all connections.
type feed struct {
	port *publichttp.Server
	now  manifest
}

const (
	// longestWait is after how long a connection is closed: its other end may be
	// gone. Whoever waits asks again before.
	longestWait = 15 * time.Minute
	askAgain    = 10 * time.Minute
	// mostUnknown is how many may wait before the cluster's size is known.
	mostUnknown = 1 << 15
)

// serve answers at once with what is not like the hash in the query, or when it is not any more.
func (f *feed) serve(w http.ResponseWriter, r *http.Request) {
	unlike := r.URL.Query().Get("unlike")
	if f.now.hash == "" || f.now.hash == unlike {
		publichttp.Wait(w, tagOf(r.RemoteAddr, unlike))
		return
	}
	fmt.Fprint(w, f.now)
}

// hold lets everybody wait: what slurmctld has now may be taken back.
func (f *feed) hold() {
	f.port.Do(func() { f.now = manifest{} })
}

// announce answers those who wait for another one. Of nodes there may be so many.
func (f *feed) announce(m manifest, nodes int) {
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

// manifest is the hashes of the files that nodes get of a configuration, by the
// hashes of their names, and the hash of it all.
type manifest struct {
	hash  string
	files map[string]string
	// urged is not nil when slurmd is to be restarted for it, within so long.
	urged *time.Duration
}

func newManifest(files map[string][]byte) manifest {
	m := manifest{files: map[string]string{}}
	for name, data := range files {
		m.files[confset.Digest([]byte(name))] = confset.Digest(data)
	}
	m.hash = confset.Digest([]byte(strings.Join(m.lines(), "\n")))
	return m
}

func (m manifest) lines() []string {
	var lines []string
	for name, data := range m.files {
		lines = append(lines, name+" "+data)
	}
	slices.Sort(lines)
	return lines
}

// String is the form in which it is sent: the hash, and a line for each file.
func (m manifest) String() string {
	return strings.Join(append([]string{m.hash}, m.lines()...), "\n") + "\n"
}

func parseManifest(text string) (manifest, error) {
	lines := strings.Fields(text)
	if len(lines)%2 == 0 {
		return manifest{}, fmt.Errorf("cannot read the configuration's hashes: want an odd number of words, not %d", len(lines))
	}
	m := manifest{hash: lines[0], files: map[string]string{}}
	for pair := range slices.Chunk(lines[1:], 2) {
		m.files[pair[0]] = pair[1]
	}
	return m, nil
}

// differs says whether a directory of files is of another configuration. What is
// in one of them only does not count: which files are sent is for Slurm's
// version to say.
func (m manifest) differs(files map[string][]byte) bool {
	for name, data := range files {
		want, sent := m.files[confset.Digest([]byte(name))]
		if sent && want != confset.Digest(data) {
			return true
		}
	}
	return false
}

// servedFiles are those that slurmctld sends to slurmd, in any of its versions
// (src/common/fetch_config.c), but for included ones and scripts.
var servedFiles = []string{
	"acct_gather.conf", "cgroup.conf", "cli_filter.lua", "gres.conf", "helpers.conf", "job_container.conf", "mpi.conf",
	"namespace.yaml", "oci.conf", "plugstack.conf", "scrun.lua", "slurm.conf", "topology.conf", "topology.yaml",
}

// served reads what slurmctld sends of the configuration at dir, and how many nodes
// there may be by it.
func served(dir string) (files map[string][]byte, nodes int) {
	set, _ := slurmconf.Read(slurmconf.Dir(dir))
	names := slices.Clone(servedFiles)
	for _, f := range set.Files {
		if f.Kind != slurmconf.SlurmdbdConf && !filepath.IsAbs(f.Name) {
			names = append(names, f.Name)
		}
	}
	return confset.Contents(dir, names), mostNodes(set.Conf(slurmconf.SlurmConf))
}
