package peerserver

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestStale: agents leave a replica that hears nothing of Kubernetes for one that does, stay where there is
// none, and know that their table may be an old one.
func TestStale(t *testing.T) {
	var cutOff, other atomic.Bool
	options := func(stale *atomic.Bool) ServerOptions {
		return ServerOptions{Heartbeat: 20 * time.Millisecond, Stale: stale.Load}
	}
	cut, good := newController(t, options(&cutOff)), newController(t, options(&other))
	for _, c := range []*controller{cut, good} {
		c.put(pod("n0", "u0", "10.0.0.1", 0))
		c.Sync()
	}
	good.certificateOf(cut)
	var to atomic.Pointer[controller]
	to.Store(cut)
	var away atomic.Int64
	agent := cut.client("one/u0/slurmd", peers.ClientOptions{
		Away: func(since time.Time) { away.Store(since.UnixNano()) },
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, to.Load().addr)
		},
	})
	agent.wait(t, "n0")
	require.Eventually(t, func() bool { return agent.Status().Fresh() }, limit, time.Millisecond)

	cutOff.Store(true)
	other.Store(true)
	require.Eventually(t, func() bool { return !agent.Status().Fresh() }, limit, time.Millisecond)
	s := agent.Status()
	assert.True(t, s.Connected, "no replica is better")
	require.Eventually(t, func() bool { return away.Load() == s.Stale.UnixNano() }, limit, time.Millisecond)
	beats := cut.Stats().HeartbeatsTotal
	require.Eventually(t, func() bool { return cut.Stats().HeartbeatsTotal > beats+3 }, limit, time.Millisecond)
	assert.Equal(t, s.Updated, agent.Status().Updated, "nobody knows whether the table is right")

	// It hears again, and what the agent has forgotten comes again.
	agent.Forget("n0")
	cutOff.Store(false)
	require.Eventually(t, func() bool { return agent.Status().Fresh() && agent.Status().Peers == 1 }, limit, time.Millisecond)
	assert.True(t, agent.Status().Stale.IsZero())

	// Another replica hears of a pod, and takes the agent over.
	good.put(pod("n1", "u1", "10.0.0.2", 0))
	other.Store(false)
	to.Store(good)
	cutOff.Store(true)
	agent.wait(t, "n0", "n1")
	require.Eventually(t, func() bool { return agent.Status().Fresh() && cut.Stats().Streams == 0 }, limit, time.Millisecond)
	assert.Empty(t, agent.gone)
}

// certificateOf gives c the certificate of another replica.
func (c *controller) certificateOf(other *controller) {
	c.Close()
	c.cert, c.ca = other.cert, other.ca
	c.restart(pod("n0", "u0", "10.0.0.1", 0))
}

// TestOldTable: a replica that hears nothing of Kubernetes has the table of an agent that has none.
func TestOldTable(t *testing.T) {
	c := newController(t, ServerOptions{Heartbeat: 20 * time.Millisecond, Stale: func() bool { return true }})
	c.put(pod("n0", "u0", "10.0.0.1", 0))
	c.Sync()
	assert.Equal(t, "HTTP/1.1 503 Service Unavailable", c.request("GET /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer abc\r\n\r\n"))
	assert.Zero(t, c.asked.Load(), "nobody judges tokens in vain")
	agent := c.client("one/u0/slurmd", peers.ClientOptions{})
	require.Eventually(t, func() bool { return strings.Contains(agent.Status().Fault, "503") }, limit, time.Millisecond)
	agent.wait(t, "n0")
	require.Eventually(t, func() bool { return !agent.Status().Stale.IsZero() }, limit, time.Millisecond)
}

// TestLost: an agent hears of machines that were lost while its stream was away.
func TestLost(t *testing.T) {
	c := newController(t, ServerOptions{})
	both := []Claim{pod("n0", "u0", "10.0.0.1", 0), pod("n1", "u1", "10.0.0.2", 0), pod("n2", "u2", "10.0.0.3", 0)}
	for _, p := range both {
		c.put(p)
	}
	c.Sync()
	var cut atomic.Bool
	agent := c.client("one/u0/slurmctld", peers.ClientOptions{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if cut.Load() {
			return nil, net.ErrClosed
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	agent.wait(t, "n0", "n1", "n2")
	cut.Store(true)
	c.end("u0")
	require.Eventually(t, func() bool { return !agent.Status().Connected }, limit, time.Millisecond)
	c.Delete("one", "u1", true)
	c.Delete("one", "u2", true)
	c.put(pod("n1", "u3", "10.0.0.4", 0)) // another pod has the name already
	c.put(both[2])                        // its machine is back
	cut.Store(false)
	require.Eventually(t, func() bool { return agent.Status().Connected }, limit, time.Millisecond)
	agent.wait(t, "n0", "n1", "n2")
	agent.mu.Lock()
	defer agent.mu.Unlock()
	assert.Equal(t, []wire.Gone{{Name: "n1", UID: "u1", Lost: true}}, agent.gone)
	assert.Equal(t, "u3", agent.table["n1"].UID)
}

// end ends a pod's stream.
func (c *controller) end(uid string) {
	cl := c.clusters["one"]
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.readers[uid].end()
}

// TestLostForAWhile: lost peers are told of for an hour, and there are not too many of them.
func TestLostForAWhile(t *testing.T) {
	now := time.Now()
	table := NewTable("e")
	table.now = func() time.Time { return now }
	lose := func(uid string) {
		_, err := table.Put(pod("n"+uid, uid, "10.0.0.1", 0))
		require.NoError(t, err)
		table.Delete(uid, true)
	}
	lose("u1")
	now = now.Add(lostTime / 2)
	lose("u2")
	assert.Equal(t, []wire.Gone{{Name: "nu1", UID: "u1", Lost: true}, {Name: "nu2", UID: "u2", Lost: true}}, update(t, table.Snapshot()).Gone)
	now = now.Add(lostTime/2 + time.Second)
	assert.Equal(t, []wire.Gone{{Name: "nu2", UID: "u2", Lost: true}}, update(t, table.Snapshot()).Gone)
	for i := range mostLost + 10 {
		lose(strconv.Itoa(i))
	}
	assert.Len(t, table.lost, mostLost)
	now = now.Add(2 * lostTime)
	lose("u3")
	assert.Len(t, table.lost, 1)
}
