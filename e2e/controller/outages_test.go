//go:build e2e

package controller

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// crowd is a cluster whose agents must never lose a name.
func (b *bed) crowd(cluster string, n int) (agents []*agent) {
	var all []*corev1.Pod
	var names []string
	for i := range n {
		p := b.pod(spec{"hpc", fmt.Sprintf("%s-cpu-%d", cluster, i), cluster, "slurmd", "cpu", "", "", []string{fmt.Sprintf("10.6.0.%d", i+1)}})
		all, names = append(all, p), append(names, p.Name)
	}
	watcher := b.agent(all[0])
	for i, name := range names {
		watcher.has(name, fmt.Sprintf("10.6.0.%d", i+1))
	}
	for _, p := range all[1:] {
		a := b.agent(p, names...)
		a.follows()
		agents = append(agents, a)
	}
	return append(agents, watcher)
}

func (b *bed) lostNothing(agents []*agent) {
	b.Helper()
	for _, a := range agents {
		a.follows()
		a.mu.Lock()
		assert.Empty(b, a.missed, "names that an agent lost")
		a.mu.Unlock()
	}
}

// leader is the replica that leads.
func (b *bed) leader() (leader *replica) {
	b.Helper()
	b.eventually(patience, "a replica leads", func() bool {
		i := slices.IndexFunc(b.replicas, (*replica).leads)
		if i >= 0 {
			leader = b.replicas[i]
		}
		return i >= 0
	})
	return leader
}

func (b *bed) published(namespace string) string {
	m, err := b.kube.CoreV1().ConfigMaps(namespace).Get(b.Context(), "slurmlet-ca", metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return m.Data["ca.crt"]
}

func mended(b *bed) {
	agents := b.crowd("c", 4)
	secrets, maps := b.kube.CoreV1().Secrets(home), b.kube.CoreV1().ConfigMaps("hpc")

	before := b.published("hpc")
	require.NoError(b, maps.Delete(b.Context(), "slurmlet-ca", metav1.DeleteOptions{}))
	b.eventually(patience, "the ConfigMap is back", func() bool { return b.published("hpc") == before })
	_, err := maps.Patch(b.Context(), "slurmlet-ca", types.MergePatchType, []byte(`{"data":{"ca.crt":"mine"}}`), metav1.PatchOptions{})
	require.NoError(b, err)
	b.eventually(patience, "the ConfigMap is right", func() bool { return b.published("hpc") == before })

	for name, breakIt := range map[string]func() error{
		"deleted": func() error { return secrets.Delete(b.Context(), "slurmlet-ca", metav1.DeleteOptions{}) },
		"broken": func() error {
			_, err := secrets.Patch(b.Context(), "slurmlet-ca", types.MergePatchType, []byte(`{"data":{"signer.key":"AAAA"}}`), metav1.PatchOptions{})
			return err
		},
	} {
		before = b.published("hpc")
		require.NoError(b, breakIt(), name)
		b.eventually(patience, "a new authority is published, "+name, func() bool {
			now := b.published("hpc")
			return now != before && strings.Count(now, "BEGIN CERTIFICATE") > strings.Count(before, "BEGIN CERTIFICATE")
		})
		assert.Contains(b, b.published("hpc"), before, "who trusts the former one is served on")
		b.eventually(patience, "each namespace has it, "+name, func() bool { return b.published("hpc") == b.published("other") })
	}
	// Somebody whose pod has the old bundle only, and one that has the new one, come in.
	for _, a := range agents {
		a.follows()
	}
	b.agent(b.pod(spec{"hpc", "c-late", "c", "slurmd", "", "", "", []string{"10.6.0.99"}})).has("c-late", "10.6.0.99")
	b.lostNothing(agents)

	// A replica that starts now has no certificate of the former authority.
	b.replica()
	fresh, all := b.replicas[len(b.replicas)-1], b.replicas
	fresh.ready()
	b.replicas = []*replica{fresh}
	b.agent(b.pod(spec{"hpc", "c-later", "c", "slurmd", "", "", "", []string{"10.6.0.98"}})).has("c-later", "10.6.0.98")
	b.replicas = all
	for _, r := range b.replicas {
		assert.NotContains(b, r.log(), "PRIVATE KEY")
	}
}

func outage(b *bed) {
	agents := b.crowd("o", 4)
	require.NoError(b, b.apiserver.Stop(10*time.Second))
	b.lostNothing(agents)
	streams := make([]int, len(agents))
	for i, a := range agents {
		streams[i] = a.client.Status().Streams
	}
	require.NoError(b, b.apiserver.Start())
	b.awaitAPI()
	late := b.pod(spec{"hpc", "o-late", "o", "slurmd", "", "", "", []string{"10.7.0.1"}})
	for i, a := range agents {
		a.b.eventually(patience, "o-late is known", func() bool { _, there := a.peer(late.Name); return there })
		assert.Equal(b, streams[i], a.client.Status().Streams, "the stream stood all the time")
	}
	b.lostNothing(agents)
}

// farewell: SIGTERM gives the Lease to another replica, and the agents go there.
func farewell(b *bed) {
	agents := b.crowd("g", 8)
	leader := b.leader()
	before := time.Now()
	require.NoError(b, leader.Stop(20*time.Second))
	assert.Less(b, time.Since(before), 10*time.Second)
	assert.True(b, bytes.HasSuffix([]byte(strings.TrimSpace(leader.log())), []byte(`"msg":"exit","source":"slurmlet-controller","status":0}`)), leader.log())
	b.replicas = slices.DeleteFunc(b.replicas, func(r *replica) bool { return r == leader })
	next := b.leader()
	b.Logf("%s leads after %v", next.Name, time.Since(before).Round(time.Millisecond))
	assert.Less(b, time.Since(before), 10*time.Second, "the Lease was given back")
	b.lostNothing(agents)
}

// leaderKilled: pods come and go while nobody leads, and the next leader writes what is missing.
func leaderKilled(b *bed) {
	agents := b.crowd("k", 8)
	leader := b.leader()
	require.NoError(b, leader.Kill())
	b.replicas = slices.DeleteFunc(b.replicas, func(r *replica) bool { return r == leader })
	began := time.Now()
	for i := range 20 {
		p := b.pod(spec{"hpc", fmt.Sprintf("k-churn-%d", i), "k", "slurmd", "", "", "", []string{fmt.Sprintf("10.8.0.%d", i+1)}})
		if i%2 == 0 {
			b.delete(p, 0)
		}
	}
	for _, a := range agents {
		a.has("k-churn-19", "10.8.0.20")
		assert.NotContains(b, a.names(), "k-churn-18")
	}
	b.Logf("all agents had all names %v after the leader was killed", time.Since(began).Round(time.Millisecond))
	b.lostNothing(agents)
	b.namespace("late")
	b.pod(spec{"late", "l-slurmctld-0", "l", "slurmctld", "", "", "", []string{"10.8.1.1"}})
	b.eventually(patience, "the next leader publishes the authority", func() bool { return b.published("late") != "" })
	b.Logf("another replica leads %v after", time.Since(began).Round(time.Millisecond))
}

// comeBack: a replica is killed with its streams, and its agents come to another one over some time.
func comeBack(b *bed) {
	const agents = 200
	fresh := b.replica()
	fresh.ready()
	all := b.replicas
	b.replicas = []*replica{all[0], fresh}
	c := &crowded{bed: b, waiting: map[netip.Addr]*arrival{}}
	c.make(agents)
	c.tokens()
	c.connect()
	const evicted = "slurmlet_controller_evicted_strangers_total"
	const streams = "slurmlet_controller_streams"
	b.eventually(patience, "the agents of other cases are gone", func() bool { return all[0].metric(streams) == agents/2 })
	before := all[0].metric(evicted)
	c.mu.Lock()
	c.arrived = nil
	c.mu.Unlock()
	b.replicas = all[:1]
	began := time.Now()
	require.NoError(b, fresh.Kill())
	b.eventually(patience, "all agents are back", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.arrived) >= agents/2 && all[0].metric(streams) == agents
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	histogram := make([]int, 11)
	for _, at := range c.arrived {
		histogram[min(int(at.Sub(began)/(100*time.Millisecond)), len(histogram)-1)]++
	}
	b.Logf("agents that came back, by tenths of a second, the last one for all that came later: %v", histogram)
	assert.Len(b, c.arrived, agents/2, "each came once, and all others stayed")
	assert.InDelta(b, before, all[0].metric(evicted), 0.5, "no agent kept another one out")
	b.replicas = all[:len(all)-1]
}
