package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func manifestOf(text string) manifest {
	return newManifest(map[string][]byte{"slurm.conf": []byte(text)})
}

func serveFeed(t *testing.T) (*feed, string) {
	f := &feed{}
	s := httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() {
		f.hangUp()
		s.Close()
	})
	return f, s.URL + "/conf"
}

func (f *feed) hangUp() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.drop(func(waiter) bool { return true })
}

func (f *feed) count() int {
	f.lock.Lock()
	defer f.lock.Unlock()
	return len(f.waiting)
}

func awaitWaiting(t *testing.T, f *feed, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return f.count() == n }, 5*time.Second, time.Millisecond)
}

type newsOf struct {
	manifest
	err error
}

func poll(t *testing.T, url string) <-chan newsOf {
	answer := make(chan newsOf, 1)
	go func() {
		m, err := getConf(t.Context(), url)
		answer <- newsOf{m, err}
	}()
	return answer
}

// TestFeed: news are told at once, and what is known already, or may be taken back, is not.
func TestFeed(t *testing.T) {
	f, url := serveFeed(t)
	first, second := manifestOf("first"), manifestOf("second")

	early := poll(t, url)
	awaitWaiting(t, f, 1)
	f.announce(first)
	got := <-early
	require.NoError(t, got.err)
	require.Equal(t, first, got.manifest)

	got = <-poll(t, url)
	require.Equal(t, first, got.manifest, "one that has nothing is told what there is")

	waits := poll(t, url+"?unlike="+first.hash)
	awaitWaiting(t, f, 1)
	f.hold()
	fresh := poll(t, url)
	awaitWaiting(t, f, 2)
	f.announce(first) // it was taken back
	got = <-fresh
	require.Equal(t, first, got.manifest)
	require.Equal(t, 1, f.count(), "it has the first already")
	f.announce(second)
	got = <-waits
	require.Equal(t, second, got.manifest)
	require.Zero(t, f.count())
}

// TestFeedIsBounded: one address cannot take all the room, and what is too old goes.
func TestFeedIsBounded(t *testing.T) {
	f, url := serveFeed(t)
	f.announce(manifestOf("first"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait := func() {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?unlike="+manifestOf("first").hash, nil)
		require.NoError(t, err)
		go func() {
			if response, err := (&http.Client{Transport: &http.Transport{}}).Do(request); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		}()
	}
	for range 10 {
		wait()
	}
	awaitWaiting(t, f, 10)
	f.lock.Lock()
	for len(f.waiting) < maxPerHost {
		f.waiting = append(f.waiting, waiter{Conn: f.waiting[0].Conn, host: f.waiting[0].host, since: f.waiting[0].since})
	}
	f.lock.Unlock()
	wait()
	require.Never(t, func() bool { return f.count() > maxPerHost }, 200*time.Millisecond, 10*time.Millisecond)

	f.lock.Lock()
	for i := range f.waiting {
		f.waiting[i].since = time.Now().Add(-longestWait - time.Second)
	}
	f.lock.Unlock()
	wait()
	awaitWaiting(t, f, 1)
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
	for name := range served(dir) {
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
