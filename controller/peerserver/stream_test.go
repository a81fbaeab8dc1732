package peerserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

func TestStream(t *testing.T) {
	c := newController(t, ServerOptions{})
	c.put(pod("n0", "u0", "10.0.0.1", 0))
	_, err := c.Put("two", pod("other", "u9", "10.0.0.9", 0))
	require.NoError(t, err)
	agent := c.client("one/u0/slurmd", peers.ClientOptions{})
	require.Eventually(t, func() bool { return strings.Contains(agent.Status().Fault, "503") }, limit, time.Millisecond, "the tables are not whole yet")
	c.Sync()
	agent.wait(t, "n0")
	assert.True(t, agent.Status().Connected)

	c.put(pod("n1", "u1", "10.0.0.2", 0))
	agent.wait(t, "n0", "n1")
	c.Delete("one", "u1", true)
	agent.wait(t, "n0")
	assert.Equal(t, []wire.Gone{{Name: "n1", UID: "u1", Lost: true}}, agent.gone)

	deadline := time.Now().Add(time.Minute).UTC().Truncate(time.Second)
	require.NoError(t, c.SetSelf("one", "u0", wire.Self{Machine: "m1", Deadline: deadline}))
	require.Eventually(t, func() bool { agent.mu.Lock(); defer agent.mu.Unlock(); return agent.self != nil }, limit, time.Millisecond)
	assert.Equal(t, &wire.Self{Machine: "m1", Deadline: deadline}, agent.self)

	s := c.Stats()
	assert.Equal(t, []int{2, 2, 1, 0}, []int{s.Clusters, s.Peers, s.Streams, s.Strangers})
	assert.Equal(t, uint64(1), s.SnapshotsTotal)

	c.Delete("one", "u0", false)
	require.Eventually(t, func() bool { return agent.Status().Streams == 2 }, limit, time.Millisecond, "a pod that is gone has lost its stream")
}

// TestRestart: the table stays while the controller is away, and what has changed meanwhile is found.
func TestRestart(t *testing.T) {
	c := newController(t, ServerOptions{})
	c.put(pod("n0", "u0", "10.0.0.1", 0))
	c.put(pod("n1", "u1", "10.0.0.2", 0))
	c.Sync()
	agent := c.client("one/u0/slurmd", peers.ClientOptions{})
	agent.wait(t, "n0", "n1")
	c.Close()
	require.Eventually(t, func() bool { return !agent.Status().Connected }, limit, time.Millisecond)
	assert.Equal(t, []string{"n0", "n1"}, agent.names())
	c.restart(pod("n1", "u1", "10.0.0.2", 0), pod("n2", "u2", "10.0.0.3", 0))
	agent.wait(t, "n1", "n2")
	assert.Equal(t, []wire.Gone{{Name: "n0", UID: "u0"}}, agent.gone)
	assert.Equal(t, 2, agent.Status().Streams)
}

// TestWithoutDNS: an agent comes back to where the controller was, if nobody knows its name any more.
func TestWithoutDNS(t *testing.T) {
	c := newController(t, ServerOptions{})
	c.put(pod("n0", "u0", "10.0.0.1", 0))
	c.Sync()
	var silent atomic.Bool
	agent := c.client("one/u0/slurmd", peers.ClientOptions{Address: "controller.test:1", Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		switch {
		case address != "controller.test:1":
		case silent.Load():
			return nil, &net.DNSError{Err: "no answer", IsTimeout: true}
		default:
			address = c.addr
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	agent.wait(t, "n0")
	silent.Store(true)
	c.restart(pod("n1", "u1", "10.0.0.2", 0))
	agent.wait(t, "n1")
}

// TestRotation: the kubelet replaces the token and the CA, and the next connection uses them.
func TestRotation(t *testing.T) {
	c := newController(t, ServerOptions{})
	c.put(pod("n0", "u0", "10.0.0.1", 0))
	c.Sync()
	agent := c.client("wrong", peers.ClientOptions{})
	require.Eventually(t, func() bool { return strings.Contains(agent.Status().Fault, "401") }, limit, time.Millisecond)
	require.NoError(t, os.Remove(agent.Token))
	require.NoError(t, os.WriteFile(agent.Token, []byte("one/u0/slurmd"), 0o400))
	agent.wait(t, "n0")

	c.Close()
	c.cert = certificate(t, filepath.Join(c.dir, "new.crt"))
	c.restart(pod("n1", "u1", "10.0.0.2", 0))
	require.Eventually(t, func() bool { return strings.Contains(agent.Status().Fault, "cannot trust the controller") }, limit, time.Millisecond)
	assert.Equal(t, []string{"n0"}, agent.names())
	require.NoError(t, os.Rename(filepath.Join(c.dir, "new.crt"), c.ca))
	agent.wait(t, "n1")
}

// TestHeartbeat: a silent stream lives by its heartbeats, and one without them is dead.
func TestHeartbeat(t *testing.T) {
	c := newController(t, ServerOptions{Heartbeat: 20 * time.Millisecond})
	c.put(pod("n0", "u0", "10.0.0.1", 0))
	c.Sync()
	agent := c.client("one/u0/slurmd", peers.ClientOptions{Silence: limit})
	agent.wait(t, "n0")
	before := agent.Status().Updated
	require.Eventually(t, func() bool { return c.Stats().HeartbeatsTotal > 3 && agent.Status().Updated.After(before) }, limit, time.Millisecond)
	assert.Equal(t, 1, agent.Status().Streams)

	mute := newController(t, ServerOptions{Heartbeat: time.Hour})
	mute.put(pod("n0", "u0", "10.0.0.1", 0))
	mute.Sync()
	agent = mute.client("one/u0/slurmd", peers.ClientOptions{Silence: 50 * time.Millisecond})
	require.Eventually(t, func() bool { return agent.Status().Streams > 2 }, limit, time.Millisecond)
	assert.Equal(t, []string{"n0"}, agent.names())
	assert.LessOrEqual(t, mute.Stats().Streams, 1, "a pod has one stream")
}

// TestLateReader: one that falls behind the log gets the whole table, and sees what is.
func TestLateReader(t *testing.T) {
	cl := newCluster("e")
	r := &reader{Identity: Identity{UID: "u0"}}
	put := func(i int) {
		_, err := cl.table.Put(pod(fmt.Sprintf("n%d", i%50), fmt.Sprintf("u%d", i), "10.0.0.1", i))
		require.NoError(t, err)
		cl.table.Delete(fmt.Sprintf("u%d", i-50), false)
		cl.flush()
	}
	cl.join(r)
	for i := range 20 {
		put(i)
	}
	_, _, wake := cl.pending(r, false)
	require.Nil(t, wake, "it has no place")
	whole, lines, _ := cl.pending(r, true)
	require.NotNil(t, whole)
	require.Empty(t, lines)
	for i := 20; i < 25; i++ {
		put(i)
	}
	whole, lines, _ = cl.pending(r, false)
	assert.Nil(t, whole)
	assert.Len(t, lines, 5)
	for i := range 20_000 {
		put(i + 25)
	}
	size := 0
	for _, d := range cl.log {
		size += len(d.line)
	}
	assert.LessOrEqual(t, size, mostLog)
	whole, _, _ = cl.pending(r, true)
	require.NotNil(t, whole)
	u := update(t, whole.line)
	assert.True(t, u.Snapshot)
	assert.Len(t, u.Peers, 50)
	_, lines, _ = cl.pending(r, false)
	assert.Empty(t, lines)

	other := &reader{Identity: Identity{UID: "u1"}}
	shared, _, _ := cl.pending(other, true)
	assert.Same(t, shared, cl.snapshot, "a snapshot is encoded once")
	assert.Same(t, &shared.text(true)[0], &shared.text(true)[0], "and compressed once")
}

// TestPause: the cost of many readers is bounded.
func TestPause(t *testing.T) {
	for readers, want := range map[int]time.Duration{0: gather, 100: gather, 2000: 100 * time.Millisecond, 10_000: 500 * time.Millisecond, 1 << 20: mostPause} {
		assert.Equal(t, want, pauseFor(readers), readers)
	}
}

// TestSlowReader: one that does not read is dropped, and others hear of changes meanwhile.
func TestSlowReader(t *testing.T) {
	c := newController(t, ServerOptions{})
	for i := range 20_000 { // more than the kernel takes for one
		c.put(pod(fmt.Sprintf("n%d", i), fmt.Sprintf("u%d", i), "10.0.0.1", 0))
	}
	c.Sync()
	conn, err := c.dial(7)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.NetConn().(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = io.WriteString(conn, "GET /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one/slow/slurmd\r\n\r\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return c.Stats().Streams == 1 }, limit, time.Millisecond)
	agent := c.client("one/u0/slurmd", peers.ClientOptions{})
	require.Eventually(t, func() bool { return agent.Status().Peers == 20_000 }, limit, time.Millisecond)
	c.put(pod("late", "late", "10.0.0.2", 0))
	require.Eventually(t, func() bool { return agent.Status().Peers == 20_001 }, limit, time.Millisecond)
	c.Close()
	require.Eventually(t, func() bool { return c.Stats().Streams == 0 }, limit, time.Millisecond, "a writer that hangs ends with the server")
}

// TestWriteDeadline: the server does not wait for a reader for ever.
func TestWriteDeadline(t *testing.T) {
	s := NewServer(ServerOptions{})
	here, there := net.Pipe()
	defer there.Close()
	r := newReader(Identity{}, deadlineAtOnce{here})
	assert.False(t, s.write(r, [][]byte{heartbeat}))
	assert.Equal(t, uint64(1), s.Stats().SlowTotal)
}

type deadlineAtOnce struct{ net.Conn }

func (d deadlineAtOnce) SetWriteDeadline(at time.Time) error {
	if rest := time.Until(at); rest > timeToRead+time.Second || rest < timeToRead/2 {
		return fmt.Errorf("an odd deadline: %s", rest)
	}
	return d.Conn.SetWriteDeadline(time.Now())
}

var _ http.Handler = &Server{}
