package peerserver

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// many is a table that no kernel takes at once, not even compressed.
func many(c *controller, n int) {
	for i := range n {
		p := pod(fmt.Sprintf("n%d", i), fmt.Sprintf("%08x-aaaa-bbbb-cccc-%012x", i*2654435761, i*40503), fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), 0)
		p.Machine = fmt.Sprintf("machine-%d", i/8)
		c.put(p)
	}
	c.Sync()
}

// mute asks for a stream, and does not read it.
func (c *controller) mute(n int) {
	conn, err := c.dial(n)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(c.t, conn.NetConn().(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = fmt.Fprintf(conn, "GET /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one/mute%d/slurmd\r\n\r\n", n)
	require.NoError(c.t, err)
}

// TestPlaces: few readers get the whole table at the same time, and those that do not read keep nobody out.
func TestPlaces(t *testing.T) {
	const mutes = mostPlaces + 20
	c := newController(t, ServerOptions{Heartbeat: 20 * time.Millisecond})
	c.timeOfPlace = time.Hour
	many(c, 10_000)
	for n := range mutes {
		c.mute(n)
	}
	require.Eventually(t, func() bool { return c.Stats().Streams == mutes && c.Stats().HeartbeatsTotal > 10 }, limit, time.Millisecond, "those that wait hear heartbeats")
	require.Eventually(t, func() bool { return c.Stats().SnapshotsTotal == mostPlaces }, limit, time.Millisecond)
	agent := c.client("one/u0/slurmd", peers.ClientOptions{Silence: limit})
	require.Eventually(t, func() bool { return c.Stats().Streams == mutes+1 }, limit, time.Millisecond)
	assert.Equal(t, uint64(mostPlaces), c.Stats().SnapshotsTotal)
	assert.False(t, agent.Status().Connected)
	c.Close()

	c = newController(t, ServerOptions{})
	c.timeOfPlace = 10 * time.Millisecond
	many(c, 10_000)
	for n := range mutes {
		c.mute(n)
	}
	agent = c.client("one/u0/slurmd", peers.ClientOptions{})
	require.Eventually(t, func() bool { return agent.Status().Peers == 10_000 }, limit, time.Millisecond)
}

// TestCompressed: agents get the whole table in a third of its bytes or less, and whoever does not ask for that gets
// lines.
func TestCompressed(t *testing.T) {
	c := newController(t, ServerOptions{})
	many(c, 2000)
	agent := c.client("one/u0/slurmd", peers.ClientOptions{})
	require.Eventually(t, func() bool { return agent.Status().Peers == 2000 }, limit, time.Millisecond)
	require.Eventually(t, func() bool { return c.Stats().BytesTotal > 0 }, limit, time.Millisecond)
	told := c.Stats()
	sent := told.BytesTotal / told.SnapshotsTotal // a slow machine makes the agent ask twice
	c.clusters["one"].mu.Lock()
	line := c.clusters["one"].snapshot.line
	c.clusters["one"].mu.Unlock()
	assert.Less(t, sent, uint64(len(line))/3)
	t.Logf("2,000 peers take %d bytes, and %d compressed", len(line), sent)
	c.put(pod("late", "late", "10.0.0.9", 0))
	require.Eventually(t, func() bool { return agent.Status().Peers == 2001 }, limit, time.Millisecond, "what follows is in lines")
	agent.mu.Lock()
	assert.Equal(t, c.peer("n1999"), agent.table["n1999"])
	agent.mu.Unlock()

	conn, err := c.dial(1)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one/u1/slurmd\r\n\r\n")
	require.NoError(t, err)
	text := make([]byte, 400)
	_, err = io.ReadFull(conn, text)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"snapshot":true,"peers":[{"name":"`) // late or n0: a slow machine makes it anew
}

func (c *controller) peer(name string) wire.Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clusters["one"].table.holder(name).Peer
}
