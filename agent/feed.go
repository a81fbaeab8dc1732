package agent

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// feed tells the agents of slurmds which configuration slurmctld has, once it
// is sure to keep it, so that a slurmd that missed it can fetch it. Everybody can
// ask, so it tells hashes only, of what every node has anyway.
//
// Thousands of nodes wait here for the next change. Each costs a connection and
// nothing that runs: no goroutine, no buffer.
type feed struct {
	lock    sync.Mutex
	now     manifest
	waiting []waiter // the oldest first
}

type waiter struct {
	net.Conn
	host, unlike string
	since        time.Time
}

const (
	// maxWaiting is how many connections wait at most, maxPerHost how many of one
	// address: a user's processes must not keep the nodes out, and many nodes may
	// come from behind one address.
	maxWaiting = 1 << 15
	maxPerHost = 1 << 9
	// longestWait is after how long a connection is closed: its other end may be
	// gone. Whoever waits asks again before.
	longestWait = 15 * time.Minute
	askAgain    = 10 * time.Minute
)

// serve answers at once with what is not like the hash in the query, or when it is not any more.
func (f *feed) serve(w http.ResponseWriter, r *http.Request) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.now.hash != "" && f.now.hash != r.FormValue("unlike") {
		fmt.Fprint(w, f.now)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	f.add(waiter{conn, host, r.FormValue("unlike"), time.Now()})
}

// add makes room, first of those that are too old.
func (f *feed) add(w waiter) {
	_ = w.SetDeadline(time.Time{})
	f.drop(func(o waiter) bool { return w.since.Sub(o.since) > longestWait })
	same := 0
	for _, o := range f.waiting {
		if o.host == w.host {
			same++
		}
	}
	switch {
	case same >= maxPerHost:
		f.dropOldest(func(o waiter) bool { return o.host == w.host })
	case len(f.waiting) >= maxWaiting:
		f.dropOldest(func(waiter) bool { return true })
	}
	f.waiting = append(f.waiting, w)
}

func (f *feed) drop(which func(waiter) bool) {
	f.waiting = slices.DeleteFunc(f.waiting, func(o waiter) bool {
		if !which(o) {
			return false
		}
		_ = o.Close()
		return true
	})
}

func (f *feed) dropOldest(which func(waiter) bool) {
	if i := slices.IndexFunc(f.waiting, which); i >= 0 {
		_ = f.waiting[i].Close()
		f.waiting = slices.Delete(f.waiting, i, i+1)
	}
}

// hold lets everybody wait: what slurmctld has now may be taken back.
func (f *feed) hold() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.now = manifest{}
}

// announce answers those who wait for another one.
func (f *feed) announce(m manifest) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.now = m
	text := m.String()
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text)
	f.drop(func(w waiter) bool {
		if w.unlike == m.hash {
			return false
		}
		_ = w.SetWriteDeadline(time.Now().Add(time.Second)) // it fits into the socket's buffer
		_, _ = w.Write([]byte(answer))
		return true
	})
}

// manifest is the hashes of the files that nodes get of a configuration, by the
// hashes of their names, and the hash of it all.
type manifest struct {
	hash  string
	files map[string]string
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

// served reads what slurmctld sends of the configuration at dir.
func served(dir string) map[string][]byte {
	set, _ := slurmconf.Read(slurmconf.Dir(dir))
	names := slices.Clone(servedFiles)
	for _, f := range set.Files {
		if f.Kind != slurmconf.SlurmdbdConf && !filepath.IsAbs(f.Name) {
			names = append(names, f.Name)
		}
	}
	return confset.Contents(dir, names)
}
