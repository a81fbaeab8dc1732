package peerserver

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestReturning: slurmctld's agents of the cluster are told of workloads once they are known, and nobody else is.
func TestReturning(t *testing.T) {
	var mu sync.Mutex
	var known *wire.Returning
	c := newController(t, ServerOptions{Returning: func(cluster string) *wire.Returning {
		mu.Lock()
		defer mu.Unlock()
		if cluster != "one" {
			return nil
		}
		return known
	}})
	c.put(pod("ctl", "u0", "10.0.0.1", 0))
	c.Sync()
	told := map[string]chan wire.Returning{}
	for _, token := range []string{"one/u0/slurmctld", "one/u2/slurmd", "two/u4/slurmctld"} {
		told[token] = make(chan wire.Returning, 10)
		c.client(token, peers.ClientOptions{Changed: func(c peers.Change) {
			if c.Returning != nil {
				told[token] <- *c.Returning
			}
		}})
	}
	set := func(r *wire.Returning) {
		mu.Lock()
		known = r
		mu.Unlock()
		c.SetsChanged("one")
		c.SetsChanged("three")
	}
	next := func() wire.Returning {
		select {
		case r := <-told["one/u0/slurmctld"]:
			return r
		case <-time.After(limit):
			t.Fatal("nothing is told")
			return wire.Returning{}
		}
	}
	set(&wire.Returning{})
	assert.Empty(t, next().StatefulSets, "there are none, which is known")
	two := wire.Returning{StatefulSets: []wire.StatefulSet{{Name: "cpu", First: 0, Replicas: 2}}}
	set(&two)
	assert.Equal(t, two, next())
	set(&two) // no news
	set(&wire.Returning{StatefulSets: []wire.StatefulSet{{Name: "..", First: 0, Replicas: 2}}})
	set(&wire.Returning{StatefulSets: []wire.StatefulSet{{Name: "cpu", First: 0, Replicas: 1}}})
	assert.Equal(t, 1, next().StatefulSets[0].Replicas, "a name that no set has is left out")
	assert.Empty(t, told["one/u2/slurmd"])
	assert.Empty(t, told["two/u4/slurmctld"])
}
