package peers

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// TestToken: nobody but the agent may be able to read it.
func TestToken(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		text string
		mode os.FileMode
		want string
		also bool // where no user's process is
	}{
		"as it should be":          {"abc\n", 0o400, "", true},
		"others can read it":       {"abc", 0o444, "others than user", false},
		"its group can read it":    {"abc", 0o440, "others than user", true},
		"empty":                    {"\n", 0o400, "holds none", false},
		"not a token":              {"a\r\nEvil: yes", 0o400, "holds none", false},
		"longer than any token is": {strings.Repeat("a", mostToken+1), 0o400, "holds none", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o600))
			require.NoError(t, os.Chmod(path, tt.mode))
			_, err := readToken(path, true)
			assert.Equal(t, tt.also, err == nil)
			token, err := readToken(path, false)
			if tt.want == "" {
				require.NoError(t, err)
				assert.Equal(t, "abc", token)
				return
			}
			require.ErrorContains(t, err, tt.want)
			assert.NotContains(t, err.Error(), "abc")
		})
	}
}

// FuzzClient: whatever a controller says, the agent's table has only names and addresses that can be used.
func FuzzClient(f *testing.F) {
	f.Add([]byte(`{"epoch":"e","revision":1,"snapshot":true,"peers":[{"name":"n0","role":"slurmd","uid":"u0","addresses":["10.0.0.1"]}]}` + "\n{}\n"))
	f.Add([]byte(`{"snapshot":true,"peers":[{"name":"a\n1.1.1.1 b","uid":"u"},{"name":"n1","uid":"u","addresses":["fe80::1%a"]}]}` + "\n"))
	f.Add([]byte(`{"snapshot":true}` + "\n" + `{"gone":[{"name":"x"}],"self":{}}` + "\n[]\n"))
	f.Add([]byte(`{"peers":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		here, there := net.Pipe()
		c, err := NewClient(ClientOptions{Address: "x:1", Changed: func(change Change) { require.NoError(t, change.Returning.Check()) }})
		require.NoError(t, err)
		go func() { _, _ = there.Write(text); _ = there.Close() }()
		_, _, _ = c.read(t.Context(), &stream{here, &answer{rest: strings.NewReader("")}, func() bool { return false }})
		_ = here.Close()
		require.Equal(t, len(c.table), c.Status().Peers)
		for name, p := range c.table {
			require.Equal(t, name, p.Name)
			require.NoError(t, p.Check())
		}
	})
}

// bomb is a line that is short only as long as it is compressed.
func bomb(t *testing.T) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, strings.Repeat(" ", 2*mostLine)+"{}\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return fmt.Sprintf("{\"gzip\":%d}\n", b.Len()) + b.String()
}

// TestTakes: the table has what can be used of what a controller tells, and the rest is left out.
func TestTakes(t *testing.T) {
	c, err := NewClient(ClientOptions{Address: "x:1"})
	require.NoError(t, err)
	change := c.take(wire.Update{
		Snapshot: true, Peers: []wire.Peer{{Name: "n0", UID: "u0"}, {Name: "a b", UID: "u1"}},
		Returning: &wire.Returning{},
	})
	assert.Equal(t, []wire.Peer{{Name: "n0", UID: "u0"}}, change.Put)
	assert.NotNil(t, change.Returning)
	change = c.take(wire.Update{Returning: &wire.Returning{StatefulSets: []wire.StatefulSet{{Name: ".."}}}})
	assert.Nil(t, change.Returning)
}

// TestCompressedFaults: a controller that is none costs an agent no memory.
func TestCompressedFaults(t *testing.T) {
	for name, text := range map[string]string{
		"too long":       fmt.Sprintf("{\"gzip\":%d}\n", mostLine+1),
		"not compressed": "{\"gzip\":10}\n0123456789",
		"cut":            "{\"gzip\":10}\n\x1f\x8b",
		"a bomb":         bomb(t),
	} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			defer here.Close()
			go func() { _, _ = io.WriteString(there, text); _ = there.Close() }()
			c, err := NewClient(ClientOptions{Address: "x:1"})
			require.NoError(t, err)
			_, stood, err := c.read(t.Context(), &stream{here, &answer{rest: strings.NewReader("")}, func() bool { return false }})
			assert.False(t, stood)
			assert.ErrorContains(t, err, "cannot read the controller's stream")
		})
	}
}

// TestNoHerd: agents that have lost their controller come back one after the other, over a time that grows
// with the cluster.
func TestNoHerd(t *testing.T) {
	const agents = 2000
	c, err := NewClient(ClientOptions{Address: "x:1"})
	require.NoError(t, err)
	for i := range agents {
		c.table[fmt.Sprint(i)] = wire.Peer{}
	}
	spread := func(most time.Duration, pause func() time.Duration) {
		t.Helper()
		var tenths [10]int
		for range agents {
			tenths[pause()*10/most]++
		}
		for _, n := range tenths {
			assert.InDelta(t, agents/10, n, agents/20, "%v", tenths)
		}
	}
	wave := agents * perPeer
	spread(wave, func() time.Duration { return c.pause(io.EOF, true, 0) })
	spread(wave/2, func() time.Duration { return c.pause(io.EOF, false, 0) - wave/4 })
	spread(lastRetry, func() time.Duration { return c.pause(io.EOF, false, 20) - lastRetry/2 })
	spread(mostWait, func() time.Duration { return c.pause(&refusal{wait: mostWait}, false, 0) - mostWait/2 })
}
