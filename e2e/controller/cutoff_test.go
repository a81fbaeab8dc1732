//go:build e2e

package controller

import (
	"net"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cable leads from a replica to kube-apiserver. While it is cut, connections stand, new ones come about, and no byte
// passes, as on a network that loses all packets.
type cable struct {
	net.Listener
	to string

	mu    sync.Mutex
	whole *sync.Cond
	cut   bool
}

// cable lays one until the test's end.
func (b *bed) cable() *cable {
	b.Helper()
	host, _, err := net.SplitHostPort(b.api)
	require.NoError(b, err)
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(b, err)
	c := &cable{Listener: l, to: b.api}
	c.whole = sync.NewCond(&c.mu)
	go c.serve()
	b.whole.Cleanup(func() {
		_ = l.Close()
		c.set(false)
	})
	return c
}

func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	c.whole.Broadcast()
}

func (c *cable) serve() {
	for {
		from, err := c.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			c.wait()
			to, err := net.Dial("tcp", c.to)
			if err != nil {
				return
			}
			defer to.Close()
			go c.pass(from, to)
			c.pass(to, from)
		}()
	}
}

func (c *cable) wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.cut {
		c.whole.Wait()
	}
}

// pass takes bytes one way, until an end is closed. Whoever closes waits for the cable, too.
func (c *cable) pass(to, from net.Conn) {
	defer to.Close()
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		c.wait()
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

// cutOff: the leader hears nothing of Kubernetes any more, and its agents hear nothing else than the leader.
func cutOff(b *bed) {
	cable := b.cable()
	before := b.replicas
	api := b.api
	b.api = cable.Addr().String()
	far := b.replica(noWriters...)
	b.api = api
	far.ready()
	for _, r := range before {
		require.NoError(b, r.Stop(20*time.Second))
	}
	b.replicas = []*replica{far}
	b.leader()
	agents := b.crowd("p", 4)
	ends := b.pod(spec{"hpc", "p-ends", "p", "slurmd", "", "", "", []string{"10.10.0.1"}})
	for _, a := range agents {
		a.has(ends.Name, "10.10.0.1")
	}
	near := b.replica(noWriters...)
	near.ready()

	cable.set(true)
	began := time.Now()
	since := func() time.Duration { return time.Since(began).Round(time.Millisecond) }
	b.delete(ends, 0)
	late := b.pod(spec{"hpc", "p-late", "p", "slurmd", "", "", "", []string{"10.10.0.2"}})
	b.eventually(patience, "the other replica leads", near.leads)
	assert.False(b, far.leads(), "only one replica writes")
	b.Logf("the other replica leads after %v", since())
	// A new agent may come to either.
	fresh := b.agent(late)
	fresh.has(late.Name, "10.10.0.2")
	b.Logf("an agent that started meanwhile has all names after %v", since())

	// A replica that is cut off says so after a minute, and its agents look for another one.
	for _, a := range agents {
		b.eventually(3*patience, "p-late is known", func() bool { _, there := a.peer(late.Name); return there })
	}
	b.Logf("all agents of the replica that is cut off have another one's table after %v", since())
	assert.Greater(b, since(), 30*time.Second, "it was another replica's table")
	assert.Contains(b, far.log(), "Kubernetes is silent")
	for _, a := range agents {
		a.loses(ends)
	}
	b.lostNothing(agents)

	cable.set(false)
	b.eventually(2*patience, "it hears of Kubernetes again", func() bool { return strings.Contains(far.log(), "Kubernetes is heard again") })
	b.Logf("it hears of Kubernetes again after %v", since())
	b.replicas = []*replica{far}
	last := b.agent(b.pod(spec{"hpc", "p-last", "p", "slurmd", "", "", "", []string{"10.10.0.3"}}))
	last.has("p-last", "10.10.0.3")
	last.has("p-late", "10.10.0.2")
	assert.True(b, near.leads() && !far.leads(), "the Lease stays where it is")
	b.replicas = []*replica{far, near}
	b.lostNothing(agents)
}
