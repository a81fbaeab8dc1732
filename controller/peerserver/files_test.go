package peerserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// files makes a version of a ConfigMap.
func files(t *testing.T, number uint64, data map[string]string) *EncodedFiles {
	t.Helper()
	text, err := json.Marshal(data)
	require.NoError(t, err)
	return &EncodedFiles{Name: "slurm", ResourceVersion: number, Former: []wire.Version{{ResourceVersion: number - 1, Digest: "d"}}, Data: text}
}

// box keeps what an agent is told.
type box struct {
	mu  sync.Mutex
	got []wire.Files
}

func (b *box) changed(c peers.Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.Files != nil {
		b.got = append(b.got, *c.Files)
	}
}

func (b *box) files() []wire.Files {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

// TestFiles: slurmctld's agents of the cluster get the ConfigMap, whole, and nobody else does.
func TestFiles(t *testing.T) {
	c := newController(t, ServerOptions{})
	c.put(pod("ctl", "u0", "10.0.0.1", 0))
	c.Sync()
	large := map[string]string{"slurm.conf": "ClusterName=c <&>\n", "job_submit.lua": strings.Repeat("\x01\"\n", 340_000)}
	require.NoError(t, c.SetFiles("one", files(t, 7, large)))
	boxes := map[string]*box{}
	for _, token := range []string{"one/u0/slurmctld", "one/u1/slurmctld", "one/u2/slurmd", "one/u3/login", "two/u4/slurmctld"} {
		boxes[token] = &box{}
		c.client(token, peers.ClientOptions{Changed: boxes[token].changed})
	}
	for _, token := range []string{"one/u0/slurmctld", "one/u1/slurmctld"} {
		require.Eventually(t, func() bool { return len(boxes[token].files()) == 1 }, limit, time.Millisecond)
		assert.Equal(t, wire.Files{Name: "slurm", ResourceVersion: 7, Former: []wire.Version{{ResourceVersion: 6, Digest: "d"}}, Data: large}, boxes[token].files()[0])
	}
	for n := range uint64(200) { // one that changes all the time
		require.NoError(t, c.SetFiles("one", files(t, 8+n, map[string]string{"slurm.conf": fmt.Sprint(n)})))
	}
	last := func(token string) uint64 { all := boxes[token].files(); return all[len(all)-1].ResourceVersion }
	for _, token := range []string{"one/u0/slurmctld", "one/u1/slurmctld"} {
		require.Eventually(t, func() bool { return last(token) == 207 }, limit, time.Millisecond)
		assert.Less(t, len(boxes[token].files()), 100, "a reader gets some of them, and the last")
	}
	require.NoError(t, c.SetFiles("one", nil))
	c.put(pod("n1", "u9", "10.0.0.2", 0))
	require.Eventually(t, func() bool { return c.Stats().Streams == 5 }, limit, time.Millisecond)
	for token, b := range boxes {
		if !strings.HasPrefix(token, "one/") || !strings.HasSuffix(token, "/slurmctld") {
			assert.Empty(t, b.files(), token)
		}
	}
	late := &box{}
	agent := c.client("one/u5/slurmctld", peers.ClientOptions{Changed: late.changed})
	require.Eventually(t, func() bool { return agent.Status().Peers == 2 }, limit, time.Millisecond)
	c.put(pod("n2", "u10", "10.0.0.3", 0))
	require.Eventually(t, func() bool { return agent.Status().Peers == 3 }, limit, time.Millisecond)
	assert.Empty(t, late.files(), "a ConfigMap that is gone is told to nobody")
	require.NoError(t, c.SetFiles("nobody", nil))
	require.NoError(t, c.SetFiles("three", files(t, 1, nil)))
	require.NoError(t, c.SetFiles("three", nil))
	assert.Equal(t, 2, c.Stats().Clusters, "a cluster without anything is forgotten")
}
