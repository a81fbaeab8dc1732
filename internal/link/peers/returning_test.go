package peers

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReturningOf: which names a StatefulSet gives its pods.
func TestReturningOf(t *testing.T) {
	r := &Returning{StatefulSets: []StatefulSet{{"a", 0, 2}, {"a-1", 5, 2}, {"none", 0, 0}}}
	for node, set := range map[string]string{
		"a-0": "StatefulSet a", "a-1": "StatefulSet a", "a-1-5": "StatefulSet a-1", "a-1-6": "StatefulSet a-1",
		"a-2": "", "a-1-4": "", "a-1-7": "", "a-01": "", "a-+1": "", "a--1": "", "a": "", "-0": "", "a-": "", "none-0": "", "b-0": "",
		"a-0x": "", "a-99999999999999999999": "", strings.Repeat("a", 70) + "-0": "",
	} {
		assert.Equal(t, set, r.Of(node), node)
	}
	assert.Empty(t, (*Returning)(nil).Of("a-0"))
}

// FuzzReturning: whatever a controller tells, a node has at most the workload whose name it begins with.
func FuzzReturning(f *testing.F) {
	f.Add([]byte(`{"statefulSets":[{"name":"a","first":1,"replicas":2}]}`), "a-1")
	f.Add([]byte(`{"statefulSets":[{"name":"a","first":2147483647,"replicas":2147483647}]}`), "a-4294967294")
	f.Fuzz(func(t *testing.T, text []byte, node string) {
		var r Returning
		if json.Unmarshal(text, &r) != nil || r.check() != nil {
			return
		}
		if set := r.Of(node); set != "" {
			require.True(t, strings.HasPrefix(node, strings.TrimPrefix(set, "StatefulSet ")+"-"), "%s of %s", node, set)
		}
	})
}

// TestReturning: slurmctld's agents of the cluster are told of workloads once they are known, and nobody else is.
func TestReturning(t *testing.T) {
	var mu sync.Mutex
	var known *Returning
	c := newController(t, ServerOptions{Returning: func(cluster string) *Returning {
		mu.Lock()
		defer mu.Unlock()
		if cluster != "one" {
			return nil
		}
		return known
	}})
	c.put(pod("ctl", "u0", "10.0.0.1", 0))
	c.Sync()
	told := map[string]chan Returning{}
	for _, token := range []string{"one/u0/slurmctld", "one/u2/slurmd", "two/u4/slurmctld"} {
		told[token] = make(chan Returning, 10)
		c.client(token, ClientOptions{Changed: func(c Change) {
			if c.Returning != nil {
				told[token] <- *c.Returning
			}
		}})
	}
	set := func(r *Returning) {
		mu.Lock()
		known = r
		mu.Unlock()
		c.SetsChanged("one")
		c.SetsChanged("three")
	}
	next := func() Returning {
		select {
		case r := <-told["one/u0/slurmctld"]:
			return r
		case <-time.After(limit):
			t.Fatal("nothing is told")
			return Returning{}
		}
	}
	set(&Returning{})
	assert.Empty(t, next().StatefulSets, "there are none, which is known")
	two := Returning{StatefulSets: []StatefulSet{{"cpu", 0, 2}}}
	set(&two)
	assert.Equal(t, two, next())
	set(&two) // no news
	set(&Returning{StatefulSets: []StatefulSet{{"..", 0, 2}}})
	set(&Returning{StatefulSets: []StatefulSet{{"cpu", 0, 1}}})
	assert.Equal(t, 1, next().StatefulSets[0].Replicas, "a name that no set has is left out")
	assert.Empty(t, told["one/u2/slurmd"])
	assert.Empty(t, told["two/u4/slurmctld"])
	assert.Error(t, (&Returning{StatefulSets: make([]StatefulSet, mostSets+1)}).check())
}
