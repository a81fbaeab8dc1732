package reconfig

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The kernel's own tables name a connection when it has been accepted, and while nobody says anything.
func TestSilentPeers(t *testing.T) {
	for network, table := range map[string]string{"tcp4": "/proc/self/net/tcp", "tcp6": "/proc/self/net/tcp6"} {
		t.Run(network, func(t *testing.T) {
			listener, err := net.Listen(network, "localhost:0")
			if err != nil && network == "tcp6" {
				t.Skip(err)
			}
			require.NoError(t, err)
			defer listener.Close()
			port := listener.Addr().(*net.TCPAddr).AddrPort().Port()
			silent := func() []netip.AddrPort {
				text, err := os.ReadFile(table)
				require.NoError(t, err)
				return silentPeers(string(text), port, port)
			}
			stranger, err := net.Dial(network, listener.Addr().String())
			require.NoError(t, err)
			defer stranger.Close()
			assert.Empty(t, silent(), "nobody has accepted it")
			accepted, err := listener.Accept()
			require.NoError(t, err)
			defer accepted.Close()
			assert.Equal(t, []netip.AddrPort{stranger.LocalAddr().(*net.TCPAddr).AddrPort()}, silent())
			_, err = stranger.Write([]byte("a request"))
			require.NoError(t, err)
			assert.Empty(t, silent(), "a request waits to be read")
		})
	}
}

func TestSilentPeersOfPorts(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1AA1 0200000A:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 7 1 0
   1: 0100007F:1AA2 0300000A:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 8 1 0
   2: 0100007F:1AA0 0400000A:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 9 1 0
   3: 00000000:1AA1 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 10 1 0
   4: 0100007F:1AA1 nonsense 01 00000000:00000000 00:00000000 00000000     0        0 11 1 0
`
	assert.Equal(t, []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:54000")}, silentPeers(table, 6817, 6817))
	assert.Len(t, silentPeers(table, 6817, 6818), 2)
	assert.Empty(t, silentPeers("", 6817, 6817))
}

func TestComputed(t *testing.T) {
	comm, err := os.ReadFile("/proc/self/comm")
	require.NoError(t, err)
	name := strings.TrimSpace(string(comm))
	before := computed(name)
	require.Eventually(t, func() bool {
		for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
		}
		return computed(name)-before >= 100*time.Millisecond
	}, time.Minute, time.Millisecond)
	assert.Zero(t, computed("nobody has this name"))
}
