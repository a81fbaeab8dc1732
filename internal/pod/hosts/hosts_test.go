package hosts

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// kubelets is what the kubelet writes into a pod's hosts file.
const kubelets = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n10.0.0.99\tnode-99\n"

func addrs(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func hostsFile(t testing.TB, text string) string {
	path := filepath.Join(t.TempDir(), "hosts")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func content(t testing.TB, path string) string {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// names are the names of File's own lines.
func names(t testing.TB, path string) map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(content(t, path)) {
		if addr, names, ok := parseHosts([]byte(line)); ok && len(names) == 1 && strings.HasSuffix(line, mark+"\n") {
			all[names[0]] = append(all[names[0]], addr.String())
		}
	}
	return all
}

func TestHosts(t *testing.T) {
	type sets []map[string][]netip.Addr
	for name, tt := range map[string]struct {
		before string
		sets   sets
		want   map[string][]string
		taken  []string
	}{
		"IPv4":       {kubelets, sets{{"a": addrs("10.0.0.1"), "b": addrs("10.0.0.2")}}, map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}}, nil},
		"IPv6":       {kubelets, sets{{"a": addrs("fd00::1")}}, map[string][]string{"a": {"fd00::1"}}, nil},
		"dual stack": {kubelets, sets{{"a": addrs("10.0.0.1", "fd00::1")}}, map[string][]string{"a": {"10.0.0.1", "fd00::1"}}, nil},
		"a name moves": {
			kubelets,
			sets{{"a": addrs("10.0.0.1", "fd00::1")}, {"a": addrs("10.0.0.2", "fd00::1")}},
			map[string][]string{"a": {"fd00::1", "10.0.0.2"}},
			nil,
		},
		"a name goes, and comes again": {
			kubelets,
			sets{{"a": addrs("10.0.0.1"), "b": addrs("10.0.0.2")}, {"a": nil}, {"a": addrs("10.0.0.1")}},
			map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}},
			nil,
		},
		"another line has the name": {
			kubelets,
			sets{{"Node-99": addrs("10.0.0.1"), "localhost": addrs("10.0.0.2"), "ip6-localhost": addrs("10.0.0.3")}},
			map[string][]string{},
			[]string{"Node-99", "ip6-localhost"},
		},
		"another line says the same":    {kubelets, sets{{"node-99": addrs("10.0.0.99", "fd00::99")}}, map[string][]string{}, nil},
		"a file without its last end":   {"127.0.0.1 localhost", sets{{"a": addrs("10.0.0.1")}}, map[string][]string{"a": {"10.0.0.1"}}, nil},
		"an empty file":                 {"", sets{{"a": addrs("10.0.0.1")}}, map[string][]string{"a": {"10.0.0.1"}}, nil},
		"what is no name or no address": {"", sets{{"a b": addrs("10.0.0.1"), "1.2.3.4": addrs("10.0.0.1"), "b": addrs("0.0.0.0", "fe80::1%eth0", "224.0.0.1")}}, map[string][]string{}, nil},
		"lines of an earlier agent": {
			kubelets + title + string(lineOf(netip.MustParseAddr("10.0.0.1"), "a")) + string(lineOf(netip.MustParseAddr("10.0.0.2"), "b")) + string(lineOf(netip.MustParseAddr("10.0.0.2"), "b")),
			sets{{"b": addrs("10.0.0.2")}},
			map[string][]string{"b": {"10.0.0.2"}},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := hostsFile(t, tt.before)
			h := New(path)
			for _, set := range tt.sets {
				require.NoError(t, h.Set(set))
			}
			assert.Equal(t, tt.want, names(t, path))
			assert.Equal(t, tt.taken, h.Taken())
			foreign, _, _ := strings.Cut(tt.before, title)
			assert.True(t, strings.HasPrefix(content(t, path), foreign), "other lines stay as they are")
			checkBlocks(t, path, len(foreign))
		})
	}
}

// TestHostsReserve: a name leads to the pod itself while it has no address.
func TestHostsReserve(t *testing.T) {
	path := hostsFile(t, "127.0.0.1\tlocalhost\n10.0.0.9\tc\n")
	h := New(path)
	now := time.Now()
	h.now = func() time.Time { return now }
	require.NoError(t, h.Set(map[string][]netip.Addr{"a": addrs("10.0.0.1")}))
	require.NoError(t, h.Reserve([]string{"a", "b", "c", "d e"}))
	want := func(want map[string][]string) {
		t.Helper()
		assert.Equal(t, want, names(t, path))
	}
	want(map[string][]string{"a": {"10.0.0.1"}, "b": {"127.0.0.1"}})
	require.NoError(t, h.Set(map[string][]netip.Addr{"a": nil, "b": addrs("10.0.0.2")}))
	now = now.Add(2 * quarantine)
	require.NoError(t, h.Mend())
	want(map[string][]string{"a": {"127.0.0.1"}, "b": {"10.0.0.2"}})
	require.NoError(t, os.WriteFile(path, []byte("127.0.0.1\tlocalhost\n"), 0o644)) // as the kubelet does
	require.NoError(t, h.Mend())
	want(map[string][]string{"a": {"127.0.0.1"}, "b": {"10.0.0.2"}, "c": {"127.0.0.1"}})
	require.NoError(t, h.Reserve([]string{"c"}))
	want(map[string][]string{"b": {"10.0.0.2"}, "c": {"127.0.0.1"}})
	assert.Empty(t, h.Taken())
	assert.Equal(t, 1, h.Len())
}

// checkBlocks: no line of File's own lies where C libraries cut their reads.
func checkBlocks(t testing.TB, path string, from int) {
	offset := 0
	for line := range strings.Lines(content(t, path)) {
		if offset >= from && strings.HasSuffix(line, mark+"\n") {
			require.Equal(t, offset/block, (offset+len(line)-1)/block, "%d: %s", offset, line)
		}
		offset += len(line)
	}
}

// TestHostsReuse: the file does not grow with the changes, and a place is left alone for a while.
func TestHostsReuse(t *testing.T) {
	path := hostsFile(t, kubelets)
	h := New(path)
	now, due := time.Now(), []func(){}
	h.now, h.later = func() time.Time { return now }, func(_ time.Duration, f func()) { due = append(due, f) }
	size := func() int { return len(content(t, path)) }
	set := func(addr string, names ...string) {
		change := map[string][]netip.Addr{}
		for _, name := range names {
			change[name] = nil
			if addr != "" {
				change[name] = addrs(addr)
			}
		}
		require.NoError(t, h.Set(change))
	}
	set("10.0.0.1", "a", "b")
	set("", "a")
	before := size()
	set("10.0.0.2", "c")
	assert.Greater(t, size(), before, "a's place is left alone")
	before, now = size(), now.Add(quarantine+time.Second)
	set("10.0.0.3", "d")
	assert.Equal(t, before, size(), "d has a's place")

	lingered := 0
	for i := range 3000 {
		now = now.Add(quarantine + time.Second)
		address := fmt.Sprintf("10.1.%d.%d", i/250, i%250)
		set(address, "b")
		there := names(t, path)["b"]
		require.Equal(t, address, there[0])
		if len(there) == 1 {
			continue
		}
		lingered++ // the new line stands above the old one
		now = now.Add(quarantine + time.Second)
		for _, f := range due {
			f()
		}
		require.Len(t, names(t, path)["b"], 1)
	}
	assert.Positive(t, lingered)
	assert.Less(t, size(), 2*leastFreed)
}

// TestHostsOthers: the kubelet writes the file anew, somebody appends a line, and somebody replaces it.
func TestHostsOthers(t *testing.T) {
	path := hostsFile(t, kubelets)
	h := New(path)
	set := map[string][]netip.Addr{}
	for i := range 100 {
		set[fmt.Sprintf("n%d", i)] = addrs(fmt.Sprintf("10.0.0.%d", i))
	}
	require.NoError(t, h.Set(set))

	anew := strings.Replace(kubelets, "10.0.0.99", "10.0.0.98", 1)
	require.NoError(t, os.WriteFile(path, []byte(anew), 0o644))
	require.NoError(t, h.Mend())
	assert.Len(t, names(t, path), 100)
	assert.True(t, strings.HasPrefix(content(t, path), anew))

	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("10.9.9.9 n5 other\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, h.Set(map[string][]netip.Addr{"z": addrs("10.0.0.250")}))
	assert.Len(t, names(t, path), 100)
	assert.NotContains(t, names(t, path), "n5", "it is somebody else's now")
	assert.Equal(t, []string{"n5"}, h.Taken())
	assert.Contains(t, content(t, path), "\n10.9.9.9 n5 other\n")

	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, []byte(kubelets), 0o644))
	require.NoError(t, h.Mend())
	assert.Len(t, names(t, path), 101)
	assert.Empty(t, h.Taken())
}

// TestHostsRewritten: the kubelet writes the file anew again and again while names change.
func TestHostsRewritten(t *testing.T) {
	path := hostsFile(t, kubelets)
	h := New(path)
	require.NoError(t, h.Mend())
	done := make(chan struct{})
	var kubelet sync.WaitGroup
	kubelet.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if err := os.WriteFile(path, []byte(kubelets), 0o644); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for n := range 3000 {
		err := h.Set(map[string][]netip.Addr{fmt.Sprintf("n%d", n%100): addrs(fmt.Sprintf("10.1.%d.%d", n>>8, n&255))})
		if err != nil {
			require.ErrorIs(t, err, errMoved)
		}
	}
	close(done)
	kubelet.Wait()
	require.NoError(t, h.Mend())
	assert.Len(t, names(t, path), 100)
	for name, there := range names(t, path) {
		require.Len(t, there, 1, name)
	}
	assert.True(t, strings.HasPrefix(content(t, path), kubelets))
}

// TestHostsEmpty: the kubelet has emptied the file, and has still to write it.
func TestHostsEmpty(t *testing.T) {
	path := hostsFile(t, kubelets)
	h := New(path)
	require.NoError(t, h.Set(map[string][]netip.Addr{"a": addrs("10.0.0.1")}))
	require.NoError(t, os.Truncate(path, 0))
	require.ErrorIs(t, h.Set(map[string][]netip.Addr{"b": addrs("10.0.0.2")}), errMoved)
	assert.Empty(t, content(t, path))
	require.NoError(t, os.WriteFile(path, []byte(kubelets), 0o644))
	require.NoError(t, h.Mend())
	assert.Len(t, names(t, path), 2)
}

// TestHostsReadOnly: the error says so, and later calls write what earlier ones could not.
func TestHostsReadOnly(t *testing.T) {
	path := hostsFile(t, kubelets)
	aside := path + ".aside"
	require.NoError(t, os.Rename(path, aside))
	h := New(path)
	require.ErrorIs(t, h.Set(map[string][]netip.Addr{"a": addrs("10.0.0.1")}), os.ErrNotExist)
	require.NoError(t, os.Rename(aside, path))
	require.NoError(t, h.Mend())
	assert.Len(t, names(t, path), 1)

	if os.Geteuid() != 0 {
		return
	}
	require.NoError(t, unix.Mount(path, path, "", unix.MS_BIND, ""))
	defer func() { require.NoError(t, unix.Unmount(path, 0)) }()
	require.NoError(t, unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	require.ErrorIs(t, h.Set(map[string][]netip.Addr{"b": addrs("10.0.0.2")}), unix.EROFS)
	require.NoError(t, unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	require.NoError(t, h.Mend())
	assert.Len(t, names(t, path), 2)
}

// FuzzHosts: whatever the file holds, other people's lines stay as they are, and the names come in.
func FuzzHosts(f *testing.F) {
	f.Add([]byte(kubelets), uint8(3))
	f.Add([]byte("10.0.0.1 a"), uint8(200))
	f.Add([]byte("#\n"+mark+"\n#"+mark+"\n10.0.0.1"+mark+"\n\x00\x00\n"), uint8(9))
	f.Add([]byte(title+string(lineOf(netip.MustParseAddr("10.0.0.1"), "peer-1"))), uint8(40))
	f.Add([]byte("10.0.0.1 peer-1 another"+mark+"\n"), uint8(21))
	f.Fuzz(func(t *testing.T, before []byte, n uint8) {
		path := hostsFile(t, string(before))
		h := New(path)
		now := time.Now()
		h.now = func() time.Time { return now }
		set := map[string][]netip.Addr{}
		for i := range int(n) {
			set[fmt.Sprintf("peer-%d", i)] = addrs(fmt.Sprintf("10.7.0.%d", i), fmt.Sprintf("fd07::%d", i))
		}
		require.NoError(t, h.Set(set))
		now = now.Add(time.Minute)
		require.NoError(t, h.Set(map[string][]netip.Addr{"peer-0": nil, "peer-1": addrs("10.8.0.1")}))
		after := content(t, path)
		require.GreaterOrEqual(t, len(after), len(before))
		offset := 0
		for line := range strings.Lines(string(before)) {
			if !strings.HasSuffix(line, mark+"\n") {
				require.Equal(t, line, after[offset:offset+len(line)])
			}
			offset += len(line)
		}
		delete(set, "peer-0")
		set["peer-1"] = addrs("10.8.0.1")
		there := names(t, path)
		for name, want := range set {
			if len(h.foreign[name]) == 0 {
				require.Len(t, there[name], len(want), name)
			}
		}
		for name := range there {
			require.Contains(t, set, name)
		}
		require.NoError(t, h.Mend())
		require.Equal(t, after, content(t, path), "a file that is right is not written")
	})
}
