package peers

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
)

// files makes a version of a ConfigMap.
func files(t *testing.T, number uint64, data map[string]string) *EncodedFiles {
	t.Helper()
	text, err := json.Marshal(data)
	require.NoError(t, err)
	return &EncodedFiles{Name: "slurm", ResourceVersion: number, Former: []Version{{number - 1, "d"}}, Data: text}
}

// box keeps what an agent is told.
type box struct {
	mu  sync.Mutex
	got []Files
}

func (b *box) changed(c Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.Files != nil {
		b.got = append(b.got, *c.Files)
	}
}

func (b *box) files() []Files {
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
		c.client(token, ClientOptions{Changed: boxes[token].changed})
	}
	for _, token := range []string{"one/u0/slurmctld", "one/u1/slurmctld"} {
		require.Eventually(t, func() bool { return len(boxes[token].files()) == 1 }, limit, time.Millisecond)
		assert.Equal(t, Files{"slurm", 7, []Version{{6, "d"}}, large}, boxes[token].files()[0])
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
	agent := c.client("one/u5/slurmctld", ClientOptions{Changed: late.changed})
	require.Eventually(t, func() bool { return agent.Status().Peers == 2 }, limit, time.Millisecond)
	c.put(pod("n2", "u10", "10.0.0.3", 0))
	require.Eventually(t, func() bool { return agent.Status().Peers == 3 }, limit, time.Millisecond)
	assert.Empty(t, late.files(), "a ConfigMap that is gone is told to nobody")
	require.NoError(t, c.SetFiles("nobody", nil))
	require.NoError(t, c.SetFiles("three", files(t, 1, nil)))
	require.NoError(t, c.SetFiles("three", nil))
	assert.Equal(t, 2, c.Stats().Clusters, "a cluster without anything is forgotten")
}

// TestCheckFiles: an agent takes nothing that no ConfigMap can have.
func TestCheckFiles(t *testing.T) {
	many := map[string]string{}
	for n := range mostFiles + 1 {
		many[fmt.Sprint(n)] = ""
	}
	data := func(names ...string) map[string]string {
		all := map[string]string{}
		for _, name := range names {
			all[name] = ""
		}
		return all
	}
	for name, c := range map[string]struct {
		files Files
		says  string // empty: it is taken
	}{
		"one":                   {Files{Name: "slurm", ResourceVersion: 1, Data: data("slurm.conf", "a-b_C.9", ".x")}, ""},
		"nothing in it":         {Files{Name: "slurm", ResourceVersion: 1}, ""},
		"no name":               {Files{ResourceVersion: 1}, "it has no name"},
		"no version":            {Files{Name: "slurm"}, "it has no resourceVersion"},
		"another directory":     {Files{Name: "slurm", ResourceVersion: 1, Data: data("a/b")}, `"a/b" is no name of a file`},
		"the directory above":   {Files{Name: "slurm", ResourceVersion: 1, Data: data("..")}, `".." is no name of a file`},
		"the kubelet's link":    {Files{Name: "slurm", ResourceVersion: 1, Data: data("..data")}, `"..data" is no name`},
		"no name of a file":     {Files{Name: "slurm", ResourceVersion: 1, Data: data("")}, `"" is no name of a file`},
		"a line's end":          {Files{Name: "slurm", ResourceVersion: 1, Data: data("a\nb")}, "is no name of a file"},
		"too many files":        {Files{Name: "slurm", ResourceVersion: 1, Data: many}, "it has 1001 files"},
		"too large":             {Files{Name: "slurm", ResourceVersion: 1, Data: map[string]string{"a": strings.Repeat("x", mostFileBytes+1)}}, "have 1048577 bytes"},
		"too many former ones":  {Files{Name: "slurm", ResourceVersion: 1, Former: make([]Version, mostFormer+1)}, "it has 65 former versions"},
		"a digest without ends": {Files{Name: "slurm", ResourceVersion: 1, Former: []Version{{1, strings.Repeat("x", 1000)}}}, "is too long"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkFiles(&c.files)
			if c.says == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.says)
			}
			client, made := NewClient(ClientOptions{Address: "x:1"})
			require.NoError(t, made)
			assert.Equal(t, c.says == "", client.take(Update{Files: &c.files}).Files != nil)
		})
	}
}
