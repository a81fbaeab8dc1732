package podnames

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestAliases: the names of SLURMLET_SLURMCTLD lead to the pods of slurmctld.
func TestAliases(t *testing.T) {
	pod := func(name, address string, ending bool) wire.Peer {
		p := wire.Peer{Name: name, Role: "slurmctld", Ending: ending}
		if address != "" {
			p.Addresses = []netip.Addr{netip.MustParseAddr(address)}
		}
		return p
	}
	for name, tt := range map[string]struct {
		controller string
		pods       []wire.Peer
		want       map[string]string
	}{
		"a Service":                     {"ctl.slurm.svc:6817", []wire.Peer{pod("ctl-0", "10.0.0.1", false)}, map[string]string{"ctl.slurm.svc": "10.0.0.1"}},
		"the pod's own name":            {"ctl-0:6817", []wire.Peer{pod("ctl-0", "10.0.0.1", false)}, nil},
		"two pods by their names":       {"ctl-0.ctl:6817,ctl-1.ctl:6817", []wire.Peer{pod("ctl-0", "10.0.0.1", false), pod("ctl-1", "10.0.0.2", false)}, map[string]string{"ctl-0.ctl": "10.0.0.1", "ctl-1.ctl": "10.0.0.2"}},
		"two names, and no pod of them": {"a:6817,b:6817", []wire.Peer{pod("ctl-0", "10.0.0.1", false)}, nil},
		"a pod that ends":               {"ctl:6817", []wire.Peer{pod("a", "10.0.0.1", true), pod("b", "10.0.0.2", false)}, map[string]string{"ctl": "10.0.0.2"}},
		"only a pod that ends":          {"ctl:6817", []wire.Peer{pod("a", "10.0.0.1", true), pod("b", "", false)}, map[string]string{"ctl": "10.0.0.1"}},
		"no address yet":                {"ctl:6817", []wire.Peer{pod("a", "", false)}, nil},
		"an address":                    {"10.0.0.9:6817", []wire.Peer{pod("a", "10.0.0.1", false)}, nil},
		"none":                          {"", []wire.Peer{pod("a", "10.0.0.1", false)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			table := map[string]wire.Peer{}
			for _, p := range tt.pods {
				table[p.Name] = p
			}
			have := map[string]string{}
			for host, addresses := range aliasesOf(slurmctldHosts(tt.controller), table) {
				have[host] = addresses[0].String()
			}
			want := tt.want
			if want == nil {
				want = map[string]string{}
			}
			assert.Equal(t, want, have)
		})
	}
}

// TestAway: while the controller is away, slurmctld's name leads to where the table has it as long as it
// takes connections there, and then to DNS, until the controller tells of it again.
func TestAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	path := hostsFile(t)
	controllers := "ctl.invalid:" + port
	m := open(t, path, controllers)
	loopback := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	table := peers.Change{Whole: true, Put: []wire.Peer{
		{Name: "ctl-0", UID: "1", Role: "slurmctld", Addresses: loopback},
		{Name: "n1", UID: "2", Role: "slurmd", Addresses: loopback},
		{Name: "controller", UID: "3", Role: "slurmd", Addresses: loopback},
	}}
	hosts := func() (names []string) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, name := range []string{"ctl-0", "ctl.invalid", "n1", "controller"} {
			if regexp.MustCompile(`(?m)^127\.0\.0\.1\s+` + regexp.QuoteMeta(name) + `\s`).Match(text) {
				names = append(names, name)
			}
		}
		return names
	}
	m.changed(table)
	assert.Equal(t, []string{"ctl-0", "ctl.invalid", "n1"}, hosts(), "the controller's own name is nobody's")
	long := time.Now().Add(-2 * doubtAfter)
	m.away(long)
	assert.Len(t, hosts(), 3, "slurmctld takes connections")
	require.NoError(t, l.Close())
	m.away(long)
	assert.Len(t, hosts(), 3, "it was tried a moment ago")
	m.doubted = time.Time{}
	m.away(time.Now())
	assert.Len(t, hosts(), 3, "the controller was there a moment ago")
	m.away(long)
	assert.Equal(t, []string{"n1"}, hosts())
	assert.Nil(t, m.find("ctl.invalid"))
	assert.Equal(t, []string{"ctl.invalid:" + port}, m.addresses(controllers))
	m.changed(table)
	assert.Equal(t, []string{"ctl-0", "ctl.invalid", "n1"}, hosts())
	assert.Equal(t, []string{"127.0.0.1:" + port, "ctl.invalid:" + port}, m.addresses(controllers))
}

// hostsFile makes a hosts file below a root of its own.
func hostsFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "etc", "hosts")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("127.0.0.1\tlocalhost\n"), 0o644))
	return path
}

// open opens the names in a hosts file, without a controller.
func open(t *testing.T, path, controllers string) *Names {
	n, err := Open(Options{
		Root: filepath.Dir(filepath.Dir(path)), Address: "controller:443", Slurmctld: controllers,
		Moved: func() {}, Changed: func(peers.Change) {}, Log: func(slog.Level, string, ...slog.Attr) {},
	})
	require.NoError(t, err)
	return n
}
