package confsync

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/link/proof"
	"github.com/slurmlet/slurmlet/internal/link/publichttp"
)

func manifestOf(text string) manifest {
	return newManifest(map[string][]byte{"slurm.conf": []byte(text)})
}

// mostTested is how many nodes wait in these tests at most.
const mostTested = 16

func serveFeed(t *testing.T) (*Feed, string) {
	f := &Feed{Verifier: &proof.Verifier{Keys: ringOf("a")}}
	p, err := publichttp.Listen("127.0.0.1:0", f, publichttp.Limits{Active: 100, Waiting: 100, Timeout: time.Minute, WaitTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	f.Serve(p)
	return f, "http://" + p.Addr().String() + "/conf"
}

// hangUp ends those that wait.
func (f *Feed) hangUp() {
	f.port.Do(func() { f.port.SetWaiting(0) })
}

func (f *Feed) count() int {
	n := make(chan int, 1)
	f.port.Do(func() { n <- f.port.CountWaiting() })
	return <-n
}

func awaitWaiting(t *testing.T, f *Feed, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return f.count() == n }, time.Minute, time.Millisecond)
}

type newsOf struct {
	manifest
	err error
}

func poll(t *testing.T, url string) <-chan newsOf {
	answer := make(chan newsOf, 1)
	go func() {
		m, err := manifestAt(t.Context(), nil, url)
		answer <- newsOf{m, err}
	}()
	return answer
}

func manifestAt(ctx context.Context, prover *proof.Client, at string) (manifest, error) {
	u, err := url.Parse(at)
	if err != nil {
		return manifest{}, err
	}
	m, err := getManifest(ctx, prover, u.Host, u.RequestURI())
	m.start = "" // by chance
	return m, err
}

// TestFeed: news are told at once, and what is known already, or may be taken back, is not.
func TestFeed(t *testing.T) {
	f, url := serveFeed(t)
	first, second := manifestOf("first"), manifestOf("second")

	early := poll(t, url)
	awaitWaiting(t, f, 1)
	f.announce(first, mostTested)
	got := <-early
	require.NoError(t, got.err)
	require.Equal(t, first, got.manifest)

	got = <-poll(t, url)
	require.Equal(t, first, got.manifest, "one that has nothing is told what there is")

	waits := poll(t, url+"?unlike="+first.hash)
	awaitWaiting(t, f, 1)
	f.Hold()
	fresh := poll(t, url)
	awaitWaiting(t, f, 2)
	f.announce(first, mostTested) // it was taken back
	got = <-fresh
	require.Equal(t, first, got.manifest)
	require.Equal(t, 1, f.count(), "it has the first already")
	f.announce(second, mostTested)
	got = <-waits
	require.Equal(t, second, got.manifest)
	require.Zero(t, f.count())
}

// TestFeedHasRoom: a stranger who opens as many connections as there may be is in no node's way.
func TestFeedHasRoom(t *testing.T) {
	f, url := serveFeed(t)
	first := manifestOf("first")
	f.announce(first, mostTested)
	var nodes []<-chan newsOf
	for range mostTested {
		nodes = append(nodes, poll(t, url+"?unlike="+first.hash))
	}
	awaitWaiting(t, f, mostTested)
	stranger := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range 2 * room(mostTested) {
		conn, err := stranger.Dial("tcp", f.port.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "GET /conf?unlike=%s HTTP/1.1\r\nHost: x\r\n\r\n", first.hash)
		require.NoError(t, err)
	}
	awaitWaiting(t, f, room(mostTested))
	f.announce(manifestOf("second"), mostTested)
	for _, node := range nodes {
		got := <-node
		require.NoError(t, got.err)
		require.Equal(t, manifestOf("second"), got.manifest)
	}
}

func TestMostNodes(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "MaxNodeCount=64\n": 64, "MaxNodeCount=lots\n": 0, "NodeName=n[1-5]\n": 5, "MaxNodeCount=4\nNodeName=n[1-5]\n": 5,
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(text), 0o644))
		_, nodes := served(dir)
		require.Equal(t, want, nodes, text)
	}
	_, nodes := served(t.TempDir())
	require.Zero(t, nodes)
}

func TestManifest(t *testing.T) {
	m := newManifest(map[string][]byte{"slurm.conf": []byte("a"), "gres.conf": nil})
	back, err := parseManifest(m.String())
	require.NoError(t, err)
	require.Equal(t, m, back)
	require.NotContains(t, m.String(), "slurm")
	for _, text := range []string{"", "a b", "a\nb c\nd"} {
		_, err := parseManifest(text)
		require.Error(t, err, text)
	}
	for _, c := range []struct {
		name  string
		cache map[string]string
		want  bool
	}{
		{"the same", map[string]string{"slurm.conf": "a", "gres.conf": ""}, false},
		{"nothing yet", nil, false},
		{"a file that this version does not get", map[string]string{"slurm.conf": "a"}, false},
		{"a file of long ago", map[string]string{"slurm.conf": "a", "included.conf": "x"}, false},
		{"another content", map[string]string{"slurm.conf": "b"}, true},
		{"no content", map[string]string{"slurm.conf": "", "gres.conf": ""}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string][]byte{}
			for name, text := range c.cache {
				files[name] = []byte(text)
			}
			require.Equal(t, c.want, m.differs(files))
		})
	}
}

// TestServed: what nodes get, and no more: no keys, no password, no script that is not sent.
func TestServed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"slurm.conf": "ClusterName=c\nSlurmctldHost=h\nInclude nodes.conf\n", "nodes.conf": "PartitionName=p Nodes=ALL\n", "cgroup.conf": "",
		"slurm.key": "secret", "slurmdbd.conf": "StoragePass=secret\n", "job_submit.lua": "", "README": "",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	var names []string
	files, _ := served(dir)
	for name := range files {
		names = append(names, name)
	}
	require.ElementsMatch(t, []string{"slurm.conf", "nodes.conf", "cgroup.conf"}, names)
}

func FuzzManifest(f *testing.F) {
	f.Add(manifestOf("x").String())
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseManifest(text)
		if err != nil {
			return
		}
		_ = m.differs(map[string][]byte{"slurm.conf": []byte(text)})
		require.NotEmpty(t, fmt.Sprint(m))
	})
}

// TestTooFewFiles: slurmctld's agent tells once that this process may not have as many connections
// as the nodes need.
func TestTooFewFiles(t *testing.T) {
	for nodes, want := range map[int]int{4: 0, 1 << 25: 1} {
		f, _ := serveFeed(t)
		told := make(chan string, 2)
		f.Log = func(_ slog.Level, text string, _ ...slog.Attr) { told <- text }
		f.announce(manifestOf("first"), nodes)
		f.announce(manifestOf("second"), nodes)
		f.count()
		require.Len(t, told, want, "%d nodes", nodes)
	}
}

// TestSlurmctldStartsAnew: those that wait hear of another start, and nothing of FirstJobId.
func TestSlurmctldStartsAnew(t *testing.T) {
	f, url := serveFeed(t)
	f.announce(manifestOf("ClusterName=c\n"), mostTested)
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/conf")
	first, err := getManifest(t.Context(), nil, host, "/conf")
	require.NoError(t, err)
	next := make(chan newsOf, 1)
	go func() {
		m, err := getManifest(t.Context(), nil, host, "/conf?unlike="+first.hash+"&life="+first.start)
		next <- newsOf{m, err}
	}()
	awaitWaiting(t, f, 1)
	f.announce(manifestOf("ClusterName=c\n"+confset.FirstJobID(1234)), mostTested)
	f.Renew()
	again := <-next
	require.NoError(t, again.err)
	require.Equal(t, first.hash, again.hash)
	require.NotEqual(t, first.start, again.start)
}
